// Authentication.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Auth, type AuthEnvironment, isValidNamespace, namespaceOf, tokenFromFragment } from '../src/api/auth.ts';

/** A fake browser, and a hub that accepts one access token. */
function setup() {
  const stored = new Map<string, string>();
  const storage = (prefix: string) => ({
    getItem: (key: string) => stored.get(prefix + key) ?? null,
    setItem: (key: string, value: string) => void stored.set(prefix + key, value),
    removeItem: (key: string) => void stored.delete(prefix + key),
  });
  const hub = { token: 'secret:team', code: 'ABCD-EFGH', requests: 0, isUnreachable: false };
  const clock = { now: 1_000_000 };
  const signOuts: (string | null)[] = [];
  const jwt = () => `x.${btoa(JSON.stringify({ iat: 500, exp: 500 + 900, n: hub.requests })).replaceAll('=', '')}.y`;
  const respond = (status: number, body: object) => new Response(JSON.stringify(body), { status });
  const environment: AuthEnvironment = {
    storage: storage('browser '),
    tabStorage: {
      ...storage('tab '),
      clear: () => [...stored.keys()].filter((key) => key.startsWith('tab ')).forEach((key) => stored.delete(key)),
    },
    fetch: async (url, init) => {
      if (hub.isUnreachable) throw new TypeError('failed to fetch');
      hub.requests += 1;
      const { accessToken, code, name } = JSON.parse(String(init?.body)) as Record<string, string>;
      if (url === '/api/devices') {
        if (code !== hub.code) return respond(404, { error: 'The code is unknown.', code: 'unknown_code' });
        hub.token = 'sgd_1';
        return respond(200, { device: { id: 'd', name }, token: 'sgd_1', namespace: 'team' });
      }
      if (hub.token === 'revoked') return respond(401, { error: 'The device was revoked.', code: 'device_revoked' });
      if (accessToken !== hub.token) return respond(401, { error: 'The access token is wrong.', code: 'invalid_access_token' });
      return respond(200, { token: jwt(), namespace: 'team' });
    },
    now: () => clock.now,
    onSignedOut: (reason) => signOuts.push(reason),
  };
  return { auth: new Auth(environment), reload: () => new Auth(environment), hub, clock, signOuts, stored };
}

test('stores a valid access token and exchanges it for a JWT', async () => {
  const { auth, hub } = setup();
  assert.deepEqual(await auth.signIn('secret:team'), { namespace: 'team' });
  assert.equal(auth.accessToken, 'secret:team');
  await auth.getValidJwt();
  assert.equal(hub.requests, 1);
});

test('validates the syntax of namespaces', () => {
  for (const name of ['a', 'Team_1.x-y', 'a'.repeat(64)]) assert.ok(isValidNamespace(name), name);
  for (const name of ['', 'a'.repeat(65), 'your own”. Go on', 'a b', '\u202Ea', 'a\n', 'ä']) assert.ok(!isValidNamespace(name), name);
});

test('reuses the JWT of the tab after a reload', async () => {
  const { auth, hub, reload } = setup();
  await auth.signIn('secret:team');
  assert.equal(await reload().getValidJwt(), await auth.getValidJwt());
  assert.equal(hub.requests, 1);
});

test('creates a device id once, and deletes it at sign-out', async () => {
  const { auth, reload, stored } = setup();
  await auth.signIn('secret:team');
  const id = auth.ensureDeviceId();
  assert.match(id, /^[0-9a-f]{32}$/);
  assert.equal(reload().ensureDeviceId(), id);
  auth.signOut();
  assert.equal(stored.size, 0);
  assert.notEqual(auth.ensureDeviceId(), id);
});

test('redeems a code for a token of this browser, whose namespace the hub names', async () => {
  const { auth, hub, reload, stored } = setup();
  const device = { name: 'Chrome on Linux', kind: 'browser' };
  await assert.rejects(auth.redeemCode('WRNG-CDEF', device), { code: 'unknown_code', message: 'The code is unknown.' });
  assert.equal(stored.size, 0);
  assert.deepEqual(await auth.redeemCode(hub.code, device), { namespace: 'team' });
  assert.deepEqual([reload().accessToken, reload().namespace, reload().resume()], ['sgd_1', 'team', { namespace: 'team' }]);
  assert.equal(auth.isDevice, true);
  await auth.getValidJwt();
});

test('a revoked device is signed out with the reason', async () => {
  const { auth, hub, signOuts, stored } = setup();
  await auth.redeemCode(hub.code, { name: 'x', kind: 'phone' });
  hub.token = 'revoked';
  await assert.rejects(auth.getValidJwt(), { code: 'device_revoked' });
  assert.deepEqual(signOuts, ['This device was signed out on another device. Sign in with a new code.']);
  assert.equal(stored.size, 0);
});

test('does not store a rejected access token', async () => {
  const { auth, signOuts } = setup();
  await assert.rejects(auth.signIn('wrong'), { status: 401, code: 'invalid_access_token', message: 'The access token is wrong.' });
  assert.deepEqual([auth.accessToken, signOuts], [null, []]);
});

test('renews the JWT before it expires, once for concurrent callers, independent of the hub’s clock', async () => {
  const { auth, hub, clock } = setup();
  await auth.signIn('secret:team');
  clock.now += (900 - 61) * 1000;
  await auth.getValidJwt();
  assert.equal(hub.requests, 1);
  clock.now += 2000;
  const [first, second] = await Promise.all([auth.getValidJwt(), auth.getValidJwt()]);
  assert.deepEqual([first === second, hub.requests], [true, 2]);
  auth.invalidateJwt();
  await auth.getValidJwt();
  assert.equal(hub.requests, 3);
});

test('signs out when the access token is rejected, but not when the hub is unreachable', async () => {
  const { auth, hub, signOuts, stored } = setup();
  await auth.signIn('secret:team');
  auth.invalidateJwt();
  hub.isUnreachable = true;
  await assert.rejects(auth.getValidJwt(), { status: 0, code: 'unreachable' });
  assert.deepEqual([signOuts, auth.accessToken], [[], 'secret:team']);
  hub.isUnreachable = false;
  hub.token = 'another';
  await assert.rejects(auth.getValidJwt(), { status: 401 });
  assert.deepEqual([signOuts, stored.size], [['The access token is no longer valid.'], 0]);
});

test('signing out deletes all stored data', async () => {
  const { auth, signOuts, stored } = setup();
  await auth.signIn('secret:team');
  auth.signOut();
  assert.deepEqual([signOuts, stored.size], [[null], 0]);
  await assert.rejects(auth.getValidJwt(), { status: 401 });
});

test('reads the token of a sign-in link', () => {
  assert.equal(tokenFromFragment('#token=a%3Ab'), 'a:b');
  assert.deepEqual([tokenFromFragment(''), tokenFromFragment('#main'), tokenFromFragment('#token=')], [null, null, null]);
});

test('reads the namespace of an access token', () => {
  assert.deepEqual(['a:b', 'a:b:c', 'a', 'a:'].map(namespaceOf), ['b', 'c', 'default', 'default']);
});

test('keeps the tab’s data across a reload, but not for another namespace', async () => {
  const { auth, hub, reload, stored } = setup();
  assert.deepEqual([auth.resume(), auth.namespace], [null, null]);
  await auth.signIn('secret:team');
  stored.set('tab draft', 'mine');
  assert.deepEqual(reload().resume(), { namespace: 'team' });
  assert.deepEqual([stored.get('tab draft'), hub.requests], ['mine', 1]);
  // Another tab has signed in to another namespace.
  stored.set('browser access-token', 'secret:other');
  assert.deepEqual(reload().resume(), { namespace: 'other' });
  assert.deepEqual([...stored.keys()].sort(), ['browser access-namespace', 'browser access-token', 'tab namespace']);
});

test('signing in to another namespace deletes the data of the first namespace', async () => {
  const { auth, hub, stored } = setup();
  stored.set('browser access-token', 'secret:other');
  auth.resume();
  stored.set('tab draft', 'theirs');
  await auth.signIn('secret:team');
  assert.equal(stored.has('tab jwt'), false);
  await assert.rejects(
    auth.getValidJwt(),
    { status: 401, message: 'Another namespace was signed in. Reload the page.' },
    'a request of the previous page',
  );
  assert.deepEqual(auth.resume(), { namespace: 'team' });
  assert.equal(stored.has('tab draft'), false);
  await auth.getValidJwt();
  assert.equal(hub.requests, 2);
});
