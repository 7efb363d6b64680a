/** Invalid bodies over real connections: bytes that are not UTF-8, and bodies without a length. `tests/it/bad_input` tests invalid fields. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ROUTES } from '../../scripts/lib/routes.mjs';
import { assertRefusal, sendRaw } from './lib/raw-request.mjs';
import { startUnchangedHub } from './lib/unchanged-hub.mjs';

const { hub, web, session } = await startUnchangedHub();

/** Bodies that are not UTF-8. */
const INVALID_BODIES = {
  'not UTF-8': [0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d],
  'UTF-16': [0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00],
  gzip: [0x1f, 0x8b, 0x08],
};

/** @param {Parameters<typeof sendRaw>[3]} [options] by default with a valid token */
const send = (method, target, options) => sendRaw(hub.port, method, target, { token: web.token, ...options });

describe('a body', () => {
  // These routes have no body.
  const withoutBody = ['/switch', '/resume', '/revoke', '/send', '/namespaces/delete'];
  const routesWithBody = ROUTES.filter(
    // A device or its request must exist before the body is read: tests/it/bad_input covers these routes.
    ({ method, route }) =>
      ['POST', 'PATCH'].includes(method) && !withoutBody.some((end) => route.endsWith(end)) && !/devices.*\{/.test(route),
  );
  const targetOf = (route) =>
    route
      .replace(/(sessions)\/\{id\}/, `$1/${session.id}`)
      .replace('machines/{id}', 'machines/m')
      .replace('{seq}', '1')
      .replace(/\{\w+\}/, 'r');

  for (const [kind, bytes] of Object.entries(INVALID_BODIES)) {
    test(`that is ${kind} is refused by every route, with and without a length`, async () => {
      assert.ok(routesWithBody.length >= 12, JSON.stringify(routesWithBody));
      for (const { method, route } of routesWithBody) {
        for (const chunked of [false, true]) {
          assertRefusal(await send(method, targetOf(route), { body: Buffer.from(bytes), chunked }), 400, 'invalid_body');
        }
      }
    });
  }

  test('for a sign-in is checked in the same way', async () => {
    for (const bytes of Object.values(INVALID_BODIES)) {
      assertRefusal(await send('POST', '/api/auth', { token: null, body: Buffer.from(bytes), chunked: true }), 400, 'invalid_body');
    }
    const nameless = await send('POST', '/api/auth', { token: null, body: Buffer.from('{}') });
    assertRefusal(nameless, 400, 'invalid_field', 'accessToken');
    assertRefusal(
      await send('POST', '/api/auth', { token: null, body: Buffer.alloc(16 * 1024 + 1, ' '), chunked: true }),
      413,
      'body_too_large',
    );
  });

  test('that is too large is refused before other errors are reported, with and without a length', async () => {
    const large = 8 * 1024 * 1024 + 1;
    // With a length, the hub responds before it reads the body.
    const withLength = { headers: [`Content-Length: ${large}`] };
    const withoutLength = { body: Buffer.alloc(large, ' '), chunked: true };
    for (const options of [withLength, withoutLength]) {
      assertRefusal(await send('POST', `/api/sessions/${session.id}/messages`, options), 413, 'body_too_large');
      assertRefusal(await send('PATCH', '/api/sessions/unknown', options), 413, 'body_too_large');
    }
    assertRefusal(await send('PATCH', '/api/sessions/unknown', { ...withLength, token: 'wrong' }), 401, 'unauthorized');
  });

  test('with deeply nested values is refused', async () => {
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    const path = `/api/sessions/${session.id}/messages`;
    assertRefusal(await send('POST', path, { body: Buffer.from(deep) }), 400, 'invalid_body');
    assertRefusal(await send('POST', path, { body: Buffer.from(`{"text":${deep}}`) }), 400, 'invalid_field', 'text');
    assertRefusal(await send('POST', path, { body: Buffer.from(`{"unknown":${deep}}`) }), 400, 'invalid_field', 'text');
  });
});
