// Authentication.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isValidNamespace, namespaceOf, tokenFromFragment } from '../src/api/access-token.ts';
import { Accounts } from '../src/api/accounts.ts';
import { Auth, type AuthEnvironment } from '../src/api/auth.ts';
import { HubError } from '../src/api/errors.ts';
import { FakeStorage } from './support/storage.ts';

/** A fake browser, and a hub with the namespaces `team` and `home`, whose valid tokens are in `hub.tokens`. */
function setup() {
  const storage = new FakeStorage();
  const hub = {
    tokens: { 'secret:team': 'team', 'secret:home': 'home' } as Record<string, string>,
    requests: 0,
    isUnreachable: false,
    isBehindSignIn: 0,
  };
  const revokedTokens = new Set<string>();
  /** The paths of the devices that the browser has revoked. */
  const deletedDevicePaths: string[] = [];
  let issuedDevices = 0;
  const clock = { now: 1_000_000 };
  const signOuts: [string, string | null][] = [];
  const createJwt = () => `x.${btoa(JSON.stringify({ iat: 500, exp: 500 + 900, n: hub.requests })).replaceAll('=', '')}.y`;
  const respond = (status: number, body: object) => new Response(JSON.stringify(body), { status });
  const fetch: AuthEnvironment['fetch'] = async (url, init) => {
    if (hub.isUnreachable) throw new TypeError('failed to fetch');
    if (hub.isBehindSignIn !== 0) return new Response('<title>Sign in</title>', { status: hub.isBehindSignIn });
    hub.requests += 1;
    if (init.method === 'DELETE') {
      deletedDevicePaths.push(url);
      return respond(200, { ok: true });
    }
    const { accessToken = '', code, name } = JSON.parse(String(init?.body)) as Record<string, string>;
    if (url === '/api/devices') {
      if (code !== 'ABCD-EFGH') return respond(404, { error: 'The code is unknown.', code: 'unknown_code' });
      const token = `sgd_${(issuedDevices += 1)}`;
      hub.tokens[token] = 'team';
      return respond(200, { device: { id: `device-${issuedDevices}`, name }, token, namespace: 'team' });
    }
    if (revokedTokens.has(accessToken)) return respond(401, { error: 'The device was revoked.', code: 'device_revoked' });
    const namespace = hub.tokens[accessToken];
    if (namespace === undefined) return respond(401, { error: 'The access token is wrong.', code: 'invalid_access_token' });
    return respond(200, { token: createJwt(), namespace });
  };
  /** Opens a tab. To reload a tab, pass its `tabStorage`. */
  const openTab = (tabStorage = new FakeStorage()) => {
    const accounts = new Accounts(storage, () => (clock.now += 1));
    const environment = {
      accounts,
      tabStorage,
      fetch,
      now: () => clock.now,
      onSignedOut: (...signOut: [string, string | null]) => void signOuts.push(signOut),
    };
    const auth = new Auth(environment);
    auth.chooseAccount();
    return {
      auth,
      accounts,
      tabStorage,
      authOf: (namespace: string) => new Auth(environment, namespace),
      reload: () => openTab(tabStorage),
    };
  };
  /** Adds an account in a tab, and opens it there. */
  const signIn = async (tab: { auth: Auth }, token: string) => tab.auth.open(await tab.auth.addAccount(token));
  return { openTab, signIn, hub, revokedTokens, deletedDevicePaths, clock, signOuts, storage };
}

test('stores a valid access token and exchanges it for a JWT', async () => {
  const { openTab, signIn, hub } = setup();
  const tab = openTab();
  assert.equal(tab.auth.namespace, null);
  await signIn(tab, 'secret:team');
  assert.deepEqual([tab.auth.namespace, tab.accounts.get('team')?.token], ['team', 'secret:team']);
  await tab.auth.getValidJwt();
  assert.equal(hub.requests, 1);
});

test('validates the syntax of namespaces', () => {
  for (const name of ['a', 'Team_1.x-y', 'a'.repeat(64)]) assert.ok(isValidNamespace(name), name);
  for (const name of ['', 'a'.repeat(65), 'your own”. Go on', 'a b', '\u202Ea', 'a\n', 'ä']) assert.ok(!isValidNamespace(name), name);
});

test('reuses the JWT of the tab after a reload', async () => {
  const { openTab, signIn, hub } = setup();
  const tab = openTab();
  await signIn(tab, 'secret:team');
  assert.equal(await tab.reload().auth.getValidJwt(), await tab.auth.getValidJwt());
  assert.equal(hub.requests, 1);
});

test('each account has a browser id of its own until the sign-out', async () => {
  const { openTab, signIn } = setup();
  const tab = openTab();
  await signIn(tab, 'secret:team');
  await signIn(tab, 'secret:home');
  const ids = ['team', 'home'].map((name) => tab.authOf(name).browserId);
  assert.match(ids[0] ?? '', /^[0-9a-f]{32}$/);
  assert.notEqual(ids[0], ids[1]);
  assert.deepEqual(
    ['team', 'home'].map((name) => openTab().authOf(name).browserId),
    ids,
  );
  tab.authOf('team').signOut();
  await signIn(tab, 'secret:team');
  assert.notEqual(tab.auth.browserId, ids[0]);
});

test('signs in with a code: the browser gets a token of its own, and the hub’s answer names the namespace', async () => {
  const { openTab, storage } = setup();
  const tab = openTab();
  const device = { name: 'Chrome on Linux', kind: 'browser' };
  await assert.rejects(tab.auth.addAccountWithCode('WRNG-CDEF', device), { code: 'unknown_code' });
  assert.equal(storage.length, 0);
  assert.equal(await tab.auth.addAccountWithCode('ABCD-EFGH', device), 'team');
  const { auth, accounts } = tab.reload();
  assert.deepEqual([auth.namespace, auth.isDevice, accounts.get('team')?.token], ['team', true, 'sgd_1']);
  await auth.getValidJwt();
});

test('a browser that signs in with a second code of a namespace keeps its first device, unless that device was revoked', async () => {
  const { openTab, revokedTokens, deletedDevicePaths } = setup();
  const tab = openTab();
  const signInWithCode = () => tab.auth.addAccountWithCode('ABCD-EFGH', { name: 'x', kind: 'phone' });
  await signInWithCode();
  assert.equal(await signInWithCode(), 'team');
  assert.deepEqual([tab.accounts.get('team')?.token, deletedDevicePaths], ['sgd_1', ['/api/devices/device-2']]);
  revokedTokens.add('sgd_1');
  await signInWithCode();
  assert.deepEqual([tab.accounts.get('team')?.token, deletedDevicePaths.length], ['sgd_3', 1]);
});

test('a revoked device is signed out with the reason, and the other accounts stay', async () => {
  const { openTab, signIn, revokedTokens, signOuts } = setup();
  const tab = openTab();
  await signIn(tab, 'secret:home');
  tab.auth.open(await tab.auth.addAccountWithCode('ABCD-EFGH', { name: 'x', kind: 'phone' }));
  const homeTab = openTab();
  homeTab.auth.open('home');
  revokedTokens.add('sgd_1');
  await assert.rejects(tab.auth.getValidJwt(), { code: 'device_revoked' });
  assert.deepEqual(signOuts, [['team', 'This device was signed out on another device. Sign in with a new code.']]);
  assert.deepEqual([tab.auth.isSignedIn, tab.reload().auth.namespace], [false, 'home']);
  assert.deepEqual([homeTab.auth.isSignedIn, homeTab.reload().auth.namespace], [true, 'home']);
  await homeTab.auth.getValidJwt();
});

test('does not store a rejected access token', async () => {
  const { openTab, storage, signOuts } = setup();
  const rejection = { status: 401, code: 'invalid_access_token' };
  await assert.rejects(openTab().auth.addAccount('wrong'), rejection);
  assert.deepEqual([storage.length, signOuts], [0, []]);
});

test('renews the JWT before it expires, once for concurrent callers, independent of the hub’s clock', async () => {
  const { openTab, signIn, hub, clock } = setup();
  const tab = openTab();
  await signIn(tab, 'secret:team');
  clock.now += (900 - 61) * 1000;
  await tab.auth.getValidJwt();
  assert.equal(hub.requests, 1);
  clock.now += 2000;
  const [first, second] = await Promise.all([tab.auth.getValidJwt(), tab.auth.getValidJwt()]);
  assert.deepEqual([first === second, hub.requests], [true, 2]);
  tab.auth.invalidateJwt();
  await tab.auth.getValidJwt();
  assert.equal(hub.requests, 3);
});

test('signs out when the access token is rejected, but not when the hub is unreachable or a proxy answers', async () => {
  const { openTab, signIn, hub, signOuts, storage } = setup();
  const tab = openTab();
  await signIn(tab, 'secret:team');
  tab.auth.invalidateJwt();
  hub.isUnreachable = true;
  await assert.rejects(tab.auth.getValidJwt(), { status: 0, code: 'unreachable' });
  assert.deepEqual([signOuts, tab.auth.isSignedIn], [[], true]);
  hub.isUnreachable = false;
  // A proxy that requires a sign-in of its own.
  for (const status of [401, 200]) {
    hub.isBehindSignIn = status;
    await assert.rejects(tab.auth.getValidJwt(), { status: status === 200 ? 0 : 401, isFromHub: false });
    assert.deepEqual([signOuts, tab.auth.isSignedIn], [[], true]);
  }
  hub.isBehindSignIn = 0;
  hub.tokens = {};
  await assert.rejects(tab.auth.getValidJwt(), { status: 401 });
  assert.deepEqual([signOuts, storage.length], [[['team', 'The access token is no longer valid.']], 0]);
});

test('an account stays signed in if its token is replaced while the hub refuses the old token', async () => {
  const { openTab, revokedTokens, signOuts } = setup();
  const tab = openTab();
  tab.auth.open(await tab.auth.addAccountWithCode('ABCD-EFGH', { name: 'x', kind: 'phone' }));
  revokedTokens.add('sgd_1');
  const refusal = tab.auth.getValidJwt();
  tab.accounts.add('team', 'secret:team');
  await assert.rejects(refusal, { code: 'device_revoked' });
  assert.deepEqual([signOuts, tab.auth.isSignedIn], [[], true]);
  await tab.auth.getValidJwt();
});

test('a JWT that is requested while the account gets another token is the JWT of the new token', async () => {
  const { openTab, hub, signOuts } = setup();
  const tab = openTab();
  tab.auth.open(await tab.auth.addAccountWithCode('ABCD-EFGH', { name: 'x', kind: 'phone' }));
  const requested = hub.requests;
  const jwt = tab.auth.getValidJwt();
  tab.accounts.add('team', 'secret:team');
  await jwt;
  assert.deepEqual([hub.requests - requested, signOuts], [2, []]);
});

test('a late answer that the device was revoked does not sign out an account that has got another token meanwhile', async () => {
  const { openTab, signOuts } = setup();
  const tab = openTab();
  tab.auth.open(await tab.auth.addAccountWithCode('ABCD-EFGH', { name: 'x', kind: 'phone' }));
  const { accountToken } = tab.auth;
  const refusal = new HubError(401, 'device_revoked', 'The device was revoked.');
  openTab().accounts.add('team', 'secret:team');
  tab.auth.handleRefusal(refusal, accountToken);
  assert.deepEqual([signOuts, tab.accounts.get('team')?.token], [[], 'secret:team']);
  tab.accounts.add('team', 'sgd_1');
  // For some seconds, the hub may still accept the token of a device that was revoked, so the answer itself must sign out.
  tab.auth.handleRefusal(refusal, accountToken);
  assert.deepEqual(signOuts, [['team', 'This device was signed out on another device. Sign in with a new code.']]);
});

test('signing out of the last account deletes all stored data', async () => {
  const { openTab, signIn, signOuts, storage } = setup();
  const tab = openTab();
  await signIn(tab, 'secret:team');
  tab.tabStorage.setItem('place', 'mine');
  tab.auth.signOut();
  assert.deepEqual([signOuts, storage.length, tab.tabStorage.length], [[['team', null]], 0, 0]);
  await assert.rejects(tab.auth.getValidJwt(), { status: 401 });
});

test('after the sign-out of one account, the other accounts stay signed in, in their tabs too', async () => {
  const { openTab, signIn } = setup();
  const [first, second] = [openTab(), openTab()];
  await signIn(first, 'secret:team');
  await signIn(second, 'secret:home');
  second.tabStorage.setItem('place', 'home');
  first.auth.signOut();
  assert.deepEqual([second.auth.isSignedIn, second.tabStorage.getItem('place')], [true, 'home']);
  assert.equal(first.reload().auth.namespace, 'home', 'the tab opens the next account');
  assert.equal(openTab().auth.namespace, 'home');
});

test('a reload keeps the tab’s account and data, and a new tab opens the account that was opened last', async () => {
  const { openTab, signIn, hub } = setup();
  const [first, second] = [openTab(), openTab()];
  await signIn(first, 'secret:team');
  await signIn(second, 'secret:home');
  first.tabStorage.setItem('place', 'team');
  assert.equal(openTab().auth.namespace, 'home');
  assert.deepEqual([first.reload().auth.namespace, first.tabStorage.getItem('place'), hub.requests], ['team', 'team', 2]);
});

test('switching the account of a tab deletes the tab’s data of the first account, but not its JWT', async () => {
  const { openTab, signIn, hub } = setup();
  const tab = openTab();
  await signIn(tab, 'secret:team');
  await signIn(tab, 'secret:home');
  tab.tabStorage.setItem('place', 'home');
  const { auth } = tab.reload();
  assert.equal(auth.chooseAccount('team'), 'team');
  assert.equal(tab.tabStorage.getItem('place'), null);
  // Each account has a JWT of its own in the tab.
  await auth.getValidJwt();
  await tab.authOf('home').getValidJwt();
  assert.notEqual(await auth.getValidJwt(), await tab.authOf('home').getValidJwt());
  assert.equal(hub.requests, 2);
  tab.authOf('home').signOut();
  assert.deepEqual(tab.tabStorage.keys(), ['jwt team', 'namespace']);
});

test('a page whose account was signed out in another tab gets no JWT of another account', async () => {
  const { openTab, signIn } = setup();
  const [first, second] = [openTab(), openTab()];
  await signIn(first, 'secret:home');
  await signIn(first, 'secret:team');
  second.auth.open('team');
  second.auth.signOut();
  await assert.rejects(first.auth.getValidJwt(), { status: 401, message: 'You are signed out.' });
});

test('a sign-in link with the token of a device is refused without a request', async () => {
  const { openTab, signIn, hub, storage } = setup();
  const tab = openTab();
  hub.tokens.sgd_1 = 'team';
  await signIn(tab, 'secret:home');
  const [requests, stored] = [hub.requests, storage.keys()];
  await assert.rejects(tab.auth.checkLinkToken('sgd_1'), { message: /token of a device.*Settings, Add a device/ });
  assert.deepEqual([hub.requests, storage.keys(), tab.reload().auth.namespace], [requests, stored, 'home']);
});

test('the namespace of a sign-in link is that of the hub’s answer, and nothing is stored before the user agrees', async () => {
  const { openTab, signIn, hub, storage } = setup();
  const tab = openTab();
  await signIn(tab, 'secret:home');
  // On a hub that names namespaces by host, a token does not name its namespace.
  hub.tokens.secret = 'team';
  const stored = [storage.keys(), tab.tabStorage.keys()];
  const checked = await tab.auth.checkLinkToken('secret');
  assert.equal(checked.namespace, 'team');
  assert.deepEqual([storage.keys(), tab.tabStorage.keys(), tab.auth.namespace], [...stored, 'home']);
  assert.equal(tab.auth.addChecked(checked), 'team');
  assert.deepEqual([tab.accounts.get('team')?.token, tab.accounts.get('home')?.token], ['secret', 'secret:home']);
});

test('a sign-in link without a valid token is refused, and its text is not repeated', async () => {
  const { openTab, hub, storage } = setup();
  const { auth } = openTab();
  await assert.rejects(auth.checkLinkToken('x:your own”? Go on'), { message: 'The link contains no valid access token.' });
  assert.equal(hub.requests, 0);
  await assert.rejects(auth.checkLinkToken('wrong:team'), { code: 'invalid_access_token' });
  assert.equal(storage.length, 0);
});

test('reads the token of a sign-in link', () => {
  assert.equal(tokenFromFragment('#token=a%3Ab'), 'a:b');
  assert.deepEqual([tokenFromFragment(''), tokenFromFragment('#main'), tokenFromFragment('#token=')], [null, null, null]);
});

test('reads the namespace of an access token', () => {
  assert.deepEqual(['a:b', 'a:b:c', 'a', 'a:'].map(namespaceOf), ['b', 'c', 'default', 'default']);
});
