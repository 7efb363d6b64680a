// REST calls to the hub.

import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import type { Auth } from '../src/api/auth.ts';
import { createApi, unwrap } from '../src/api/client.ts';
import { HubError } from '../src/api/errors.ts';

test('a page that a network shows in place of the hub is an unreachable hub', async (t) => {
  t.after(() => mock.restoreAll());
  mock.method(globalThis, 'fetch', async () => new Response('<title>Sign in to this network</title>'));
  globalThis.location = { origin: 'http://hub.test' } as Location;
  const api = createApi({ getValidJwt: async () => 'jwt', accountToken: 'secret' } as Auth);
  await assert.rejects(unwrap(api.GET('/api/config')), (error: unknown) => error instanceof HubError && error.isTransient);
});
