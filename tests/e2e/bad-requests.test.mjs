/** Invalid paths, queries and headers over real connections. The runtime rewrites some paths before the hub gets them. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ROUTES } from '../../scripts/test/support/routes.mjs';
import { assertRefusal, sendRaw } from './lib/raw-request.mjs';
import { startUnchangedHub } from './lib/unchanged-hub.mjs';

const { hub, web, session } = await startUnchangedHub();

/** @param {Parameters<typeof sendRaw>[3]} [options] by default with a valid token */
const send = (method, target, options) => sendRaw(hub.port, method, target, { token: web.token, ...options });

describe('a path', () => {
  const withId = ROUTES.filter(({ route }) => route.includes('{id}'));
  const bodyOf = (method) => (method === 'GET' ? {} : { body: Buffer.from('{}') });

  test('with an invalid or unknown id is refused by every route', async () => {
    assert.ok(withId.length >= 20, JSON.stringify(withId));
    for (const { method, route } of withId) {
      const pathWithId = (id) => route.replace('{id}', id).replace(/\{\w+\}/, 'r');
      const code = { sessions: 'session_not_found', machines: 'machine_not_found', devices: 'device_not_found' }[route.split('/')[2]];
      assertRefusal(await send(method, pathWithId('%ff'), bodyOf(method)), 400, 'invalid_field', 'id');
      for (const id of /** @type {any[]} */ (['__proto__', '%00', '..%2f..%2fetc', 'x'.repeat(8192)])) {
        assertRefusal(await send(method, pathWithId(id), bodyOf(method)), 404, code);
      }
    }
  });

  test('of CLIs is closed to the JWT of a web client, also behind dot segments or a host with a path', async () => {
    const { body } = await hub.webWithoutToken().post('/api/auth', { accessToken: web.token });
    const jwt = { token: body.token };
    const ofCli = `/cli/sessions/${session.id}`;
    assertRefusal(await send('GET', ofCli, jwt), 401, 'unauthorized');
    const up = ['..', '%2e%2e', '.%2E', '..\\', '%2e%2e\\'];
    for (const [first, second] of up.flatMap((first) => up.map((second) => [first, second]))) {
      // The runtime and browsers resolve encoded dots differently. The last two paths lead to /cli either in the runtime or in
      // browsers.
      const targets = [
        `/api/sessions/${first}/${second}${ofCli}`,
        `/api/sessions/x/${first}/${second}/${second}/cli/machines/m`,
        `/api/${first}${ofCli}`,
        `/cli/${first}/${second}/api/sessions/${session.id}`,
        `/cli/sessions/${session.id}/x/${first}/${second}/../../../api/sessions`,
      ];
      for (const target of targets) {
        for (const token of [jwt.token, web.token, null]) assertRefusal(await send('GET', target, { token }), 404, 'not_found');
      }
      const created = await send('POST', `/api/${first}/cli/sessions`, { ...jwt, body: Buffer.from('{"tag":"stolen","metadata":{}}') });
      assertRefusal(created, 404, 'not_found');
    }
    for (const segment of ['..%2f', '%2e%2e%5c', '...', '.x', '%252e%252e']) {
      const answer = await send('GET', `/api/sessions/${segment}/${segment}${ofCli}`, jwt);
      assert.equal(answer.status, 404, `${segment}: ${answer.text}`);
    }
    for (const host of [
      'a/api/x',
      'a/api/..',
      'a%2fcli',
      `a%2fcli%2fsessions%2f${session.id}%3f`,
      'user@a',
      'a?x',
      'a#x',
      'a b',
      'a\\api',
    ]) {
      for (const target of [ofCli, `/api/sessions/${session.id}`]) {
        const answer = await send('GET', target, { ...jwt, host });
        assert.ok([400, 401, 404].includes(answer.status), `Host: ${host}, ${target}: ${answer.status} ${answer.text}`);
      }
    }
    assertRefusal(await send('GET', '/health/../api/sessions', { token: null }), 404, 'not_found');
  });

  test('with invalid bytes is refused', async () => {
    for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0xa6, 0x80], [0x01], [0x7f]]) {
      const answer = await send('GET', Buffer.concat([Buffer.from('/api/sessions/'), Buffer.from(bytes)]));
      assert.ok(answer.status >= 400 && answer.status < 500, `${bytes}: ${answer.status} ${answer.text}`);
    }
  });
});

describe('headers', () => {
  test('with two tokens or an invalid token are refused', async () => {
    for (const headers of [[`Authorization: Bearer ${web.token}`], ['Authorization: Basic x']]) {
      assertRefusal(await send('GET', '/api/sessions', { headers }), 401, 'unauthorized');
    }
    for (const token of [`${web.token}\x7f`, '\u00ff', 'x'.repeat(8192), '.'.repeat(8192), 'a.b.c']) {
      const { status } = await send('GET', '/api/sessions', { token });
      assert.ok([400, 401].includes(status), `${status} for ${token.slice(0, 20)}`);
    }
  });

  test('that the worker uses internally are ignored', async () => {
    const headers = ['Hub-Namespace: other', 'Hub-Socket: cli', 'Last-Event-ID: \u00e9'];
    const answer = await send('GET', `/api/sessions/${session.id}`, { headers });
    assert.deepEqual([answer.status, answer.body.session.namespace], [200, 'team']);
  });
});

test('texts that differ after a NUL character are different, also in the database', async () => {
  const tags = ['a\u0000one', 'a\u0000two'];
  const ids = [];
  for (const tag of [...tags, ...tags]) ids.push((await web.openSession({ tag })).id);
  assert.equal(new Set(ids).size, 2);
  assert.deepEqual([ids[2], ids[3]], [ids[0], ids[1]]);
  const rows = await (await hub.database())
    .prepare('SELECT tag FROM sessions WHERE id IN (?1, ?2) ORDER BY tag')
    .bind(ids[0], ids[1])
    .raw();
  assert.deepEqual(rows.flat(), tags);
  for (const id of ids.slice(0, 2)) assert.equal((await web.delete(`/api/sessions/${id}`)).status, 200);
});
