// Signing in.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Auth, type AuthEnvironment, isNamespace, namespaceOf, tokenOfFragment } from '../src/api/auth.ts';

/** A hub that knows one token, and a browser around it. */
function place() {
  const kept = new Map<string, string>();
  const shelf = (prefix: string) => ({
    getItem: (key: string) => kept.get(prefix + key) ?? null,
    setItem: (key: string, value: string) => void kept.set(prefix + key, value),
    removeItem: (key: string) => void kept.delete(prefix + key),
  });
  const hub = { token: 'secret:team', asked: 0, isAway: false };
  const clock = { now: 1_000_000 };
  const out: (string | null)[] = [];
  const jwt = () => `x.${btoa(JSON.stringify({ iat: 500, exp: 500 + 900, n: hub.asked })).replaceAll('=', '')}.y`;
  const answer = (status: number, body: object) => new Response(JSON.stringify(body), { status });
  const environment: AuthEnvironment = {
    storage: shelf('browser '),
    tab: { ...shelf('tab '), clear: () => [...kept.keys()].filter((key) => key.startsWith('tab ')).forEach((key) => kept.delete(key)) },
    fetch: async (_url, init) => {
      if (hub.isAway) throw new TypeError('failed to fetch');
      hub.asked += 1;
      const { accessToken } = JSON.parse(String(init?.body)) as { accessToken: string };
      if (accessToken !== hub.token) return answer(401, { error: 'The access token is wrong.', code: 'invalid_access_token' });
      return answer(200, { token: jwt(), namespace: 'team' });
    },
    now: () => clock.now,
    onSignedOut: (why) => out.push(why),
  };
  return { auth: new Auth(environment), reloaded: () => new Auth(environment), hub, clock, out, kept };
}

test('a good token is kept, and traded for a JWT', async () => {
  const { auth, hub } = place();
  assert.deepEqual(await auth.signIn('secret:team'), { namespace: 'team' });
  assert.equal(auth.accessToken, 'secret:team');
  await auth.token();
  assert.equal(hub.asked, 1);
});

test('a namespace is one word', () => {
  for (const name of ['a', 'Team_1.x-y', 'a'.repeat(64)]) assert.ok(isNamespace(name), name);
  for (const name of ['', 'a'.repeat(65), 'your own”. Go on', 'a b', '\u202Ea', 'a\n', 'ä']) assert.ok(!isNamespace(name), name);
});

test('a reload goes on with the JWT of the tab', async () => {
  const { auth, hub, reloaded } = place();
  await auth.signIn('secret:team');
  assert.equal(await reloaded().token(), await auth.token());
  assert.equal(hub.asked, 1);
});

test('a wrong token is not kept, and the hub says why', async () => {
  const { auth, out } = place();
  await assert.rejects(auth.signIn('wrong'), { status: 401, code: 'invalid_access_token', message: 'The access token is wrong.' });
  assert.deepEqual([auth.accessToken, out], [null, []]);
});

test('a JWT is renewed before it ends, once for all who wait, whatever the hub’s clock says', async () => {
  const { auth, hub, clock } = place();
  await auth.signIn('secret:team');
  clock.now += (900 - 61) * 1000;
  await auth.token();
  assert.equal(hub.asked, 1);
  clock.now += 2000;
  const [first, second] = await Promise.all([auth.token(), auth.token()]);
  assert.deepEqual([first === second, hub.asked], [true, 2]);
  auth.forgetJwt();
  await auth.token();
  assert.equal(hub.asked, 3);
});

test('a token that is no longer good signs out; a hub that is away does not', async () => {
  const { auth, hub, out, kept } = place();
  await auth.signIn('secret:team');
  auth.forgetJwt();
  hub.isAway = true;
  await assert.rejects(auth.token(), { status: 0, code: 'unreachable' });
  assert.deepEqual([out, auth.accessToken], [[], 'secret:team']);
  hub.isAway = false;
  hub.token = 'another';
  await assert.rejects(auth.token(), { status: 401 });
  assert.deepEqual([out, kept.size], [['The access token is no longer valid.'], 0]);
});

test('signing out forgets everything', async () => {
  const { auth, out, kept } = place();
  await auth.signIn('secret:team');
  auth.signOut();
  assert.deepEqual([out, kept.size], [[null], 0]);
  await assert.rejects(auth.token(), { status: 401 });
});

test('a token is taken out of an address', () => {
  assert.equal(tokenOfFragment('#token=a%3Ab'), 'a:b');
  assert.deepEqual([tokenOfFragment(''), tokenOfFragment('#main'), tokenOfFragment('#token=')], [null, null, null]);
});

test('a token says whose namespace it is of', () => {
  assert.deepEqual(['a:b', 'a:b:c', 'a', 'a:'].map(namespaceOf), ['b', 'c', 'default', 'default']);
});

test('a reload goes on with what the tab keeps, and somebody else finds none of it', async () => {
  const { auth, hub, reloaded, kept } = place();
  assert.deepEqual([auth.resume(), auth.namespace], [null, null]);
  await auth.signIn('secret:team');
  kept.set('tab draft', 'mine');
  assert.deepEqual(reloaded().resume(), { namespace: 'team' });
  assert.deepEqual([kept.get('tab draft'), hub.asked], ['mine', 1]);
  // Another tab has signed in to another namespace.
  kept.set('browser access-token', 'secret:other');
  assert.deepEqual(reloaded().resume(), { namespace: 'other' });
  assert.deepEqual([...kept.keys()].sort(), ['browser access-token', 'tab namespace']);
});

test('who signs in while somebody else is gets nothing of theirs', async () => {
  const { auth, hub, kept } = place();
  kept.set('browser access-token', 'secret:other');
  auth.resume();
  kept.set('tab draft', 'theirs');
  await auth.signIn('secret:team');
  assert.equal(kept.has('tab jwt'), false);
  assert.deepEqual(auth.resume(), { namespace: 'team' });
  assert.equal(kept.has('tab draft'), false);
  await auth.token();
  assert.equal(hub.asked, 2);
});
