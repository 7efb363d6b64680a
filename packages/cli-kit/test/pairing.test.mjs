/** Pairing: a computer without a token asks the hub for one, and a person approves it at the console. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { DeviceStore } from '../src/device-store.mjs';
import { HubError } from '../src/hub-client.mjs';
import { readOptions } from '../src/args.mjs';
import { computerName } from '../src/pairing.mjs';
import { forgetToken, isTokenRefused, signIn } from '../src/sign-in.mjs';
import { FakeHub, TOKEN } from './support/fake-hub.mjs';
import { tempDir } from './support/repository.mjs';
import { eventually, quietLog } from './support/wait.mjs';

/** A hub, and a computer that signs in to it. `shown`: all that its terminal shows. */
async function setUp(t, { isTTY = false } = {}) {
  const hub = await FakeHub.start();
  t.after(() => hub.stop());
  const home = tempDir(t);
  const log = quietLog();
  const input = Object.assign(new PassThrough(), { isTTY, setRawMode() {} });
  const output = Object.assign(new PassThrough(), { isTTY });
  let shown = '';
  output.on('data', (text) => (shown += text));
  const context = { env: {}, devVars: '', log, input, output };
  const start = (options = {}, env = {}) => signIn({ hub: hub.url, home, ...options }, { ...context, env });
  return { hub, home, log, input, start, shown: () => shown };
}

test('a computer without a token shows a code, and after the approval it has a token of its own', async (t) => {
  const { hub, home, log, start } = await setUp(t);
  const access = start();
  const { code, name, kind } = await hub.untilAccessRequested();
  assert.deepEqual([name, kind], [computerName(), 'cli']);
  hub.decide(code, 'approve');
  const { token, namespace, isPaired } = await access;
  assert.deepEqual([hub.devices.has(token), namespace, isPaired], [true, 'tests', true]);
  assert.match(
    log.infos[0],
    new RegExp(`^To connect this computer to ${hub.url}, open ${hub.url}/pair#${code} in a browser.*${code}.*5 minutes`),
  );
  assert.match(log.infos[1], /^Connected to the namespace tests as “.+”\. The token is stored in \/.+\.json\.$/);
  const [name_] = readdirSync(path.join(home, 'devices'));
  const file = path.join(home, 'devices', name_);
  if (process.platform !== 'win32') assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.ok(readFileSync(file, 'utf8').includes(token));
});

test('the next start uses the stored token, and another hub does not get it', async (t) => {
  const { hub, home, start } = await setUp(t);
  const first = start();
  hub.decide((await hub.untilAccessRequested()).code, 'approve');
  const { token } = await first;
  assert.deepEqual(await start(), { token, namespace: 'tests', isPaired: true });
  assert.equal(hub.accessRequests.length, 1);
  assert.equal(new DeviceStore({ home, hub: 'https://other.example.com' }).load(), undefined);
});

test('a computer that is given a code has a token of its own at once, without an approval', async (t) => {
  const { hub, log, start } = await setUp(t, { isTTY: true });
  hub.codes.add('ABCD-EFGH');
  const access = await start({ code: 'ABCD-EFGH' });
  assert.deepEqual(
    [...hub.devices.values()].map(({ name, kind }) => [name, kind]),
    [[computerName(), 'cli']],
  );
  assert.deepEqual([hub.devices.has(access.token), access.namespace, access.isPaired], [true, 'tests', true]);
  assert.match(log.infos[0], /^Connected to the namespace tests as “.+”\. The token is stored in/);
  assert.deepEqual(await start(), access);
  assert.equal(hub.accessRequests.length, 0);
});

test('a code is used before a token of the environment', async (t) => {
  const { hub, start } = await setUp(t);
  hub.codes.add('ABCD-EFGH');
  const { token } = await start({ code: 'ABCD-EFGH' }, { CLI_API_TOKEN: TOKEN });
  assert.deepEqual([...hub.devices.keys()], [token]);
});

test('a connected computer that is given another code keeps its device', async (t) => {
  const { hub, log, start } = await setUp(t);
  hub.codes.add('ABCD-EFGH').add('JKMN-PQRS');
  const first = await start({ code: 'ABCD-EFGH' });
  assert.deepEqual(await start({ code: 'JKMN-PQRS' }), first);
  assert.deepEqual([...hub.devices.keys()], [first.token]);
  assert.match(log.infos.at(-1), /^This computer is already connected to the namespace tests as “.+”\.$/);
});

test('a code replaces a stored token that was revoked, or that opens another namespace', async (t) => {
  const { hub, log, start } = await setUp(t);
  hub.codes.add('ABCD-EFGH').add('JKMN-PQRS').add('TUVW-XYZA');
  await start({ code: 'ABCD-EFGH' });
  hub.revokeDevices();
  const second = await start({ code: 'JKMN-PQRS' });
  assert.deepEqual([...hub.devices.keys()], [second.token]);
  assert.deepEqual(log.warnings, []);
  hub.pairingAnswer = { namespace: 'elsewhere' };
  const third = await start({ code: 'TUVW-XYZA' });
  assert.equal(third.namespace, 'elsewhere');
  assert.match(log.warnings[0], /^This computer was connected to the namespace tests as “.+”\. Revoke that device there\.$/);
});

test('a computer that is given its used code again reports this, and uses its stored token', async (t) => {
  const { hub, log, start } = await setUp(t);
  hub.codes.add('ABCD-EFGH');
  const access = await start({ code: 'ABCD-EFGH' });
  assert.deepEqual(await start({ code: 'ABCD-EFGH' }), access);
  assert.deepEqual(log.warnings, ['The code ABCD-EFGH is not valid: it works once, for 5 minutes. Continuing without the code.']);
});

test('a computer with an expired code shows a code of its own', async (t) => {
  const { hub, start } = await setUp(t);
  const access = start({ code: 'ABCD-EFGH' });
  hub.decide((await hub.untilAccessRequested()).code, 'approve');
  assert.equal((await access).isPaired, true);
});

test('the value of --code must have the form of a code, and cannot be combined with a token', () => {
  const read = (...argv) => readOptions(['--dir', '.', ...argv], {}, { homeVariable: 'NONE', home: '.none', options: {} });
  assert.equal(read('--code', 'abcdefgh').code, 'abcdefgh');
  assert.throws(() => read('--code', 'ABCD'), /--code must be 8 letters and digits, such as ABCD-EFGH, not "ABCD"/);
  assert.throws(() => read('--code=ABCD-EFGH', '--token-file', 'x'), /Give either --code or a token, not both/);
});

test('a terminal shows the address, a QR code, and the code to compare', async (t) => {
  const { hub, start, shown } = await setUp(t, { isTTY: true });
  const access = start();
  const { code } = await hub.untilAccessRequested();
  await eventually(() => shown().includes('Waiting for the approval'), 'the code');
  assert.match(shown(), new RegExp(`\n  ${hub.url}/pair#${code}\n\n(  \x1b.*[▀▄█].*\n){10,}`));
  assert.match(shown(), new RegExp(`the same code:\n\n  .*${code}.*valid for 5 minutes`));
  hub.decide(code, 'approve');
  await access;
});

test('a code that expires is replaced by a new one', async (t) => {
  const { hub, log, start } = await setUp(t);
  const access = start();
  const first = await hub.untilAccessRequested();
  hub.decide(first.code, 'expire');
  const second = await hub.untilAccessRequested();
  hub.decide(second.code, 'approve');
  await access;
  assert.notEqual(second.code, first.code);
  assert.deepEqual(
    log.infos.map((line) => line.split(/[ ,]/)[1]),
    ['connect', 'code', 'connect', 'to'],
  );
});

test('a denied request ends with what to do', async (t) => {
  const { hub, home, start } = await setUp(t);
  const access = start();
  hub.decide((await hub.untilAccessRequested()).code, 'deny');
  await assert.rejects(access, { message: 'The request was denied in the console. To ask again, start this program again.' });
  assert.equal(existsSync(path.join(home, 'devices')), false);
});

test('a computer that loses its connection while it waits receives its token later', async (t) => {
  const { hub, log, start } = await setUp(t);
  const access = start();
  const { code } = await hub.untilAccessRequested();
  hub.outageStatus = 503;
  await eventually(() => log.warnings.length > 0, 'the outage to be logged');
  hub.decide(code, 'approve');
  hub.outageStatus = undefined;
  assert.equal((await access).namespace, 'tests');
  assert.match(log.warnings.join(), /^Cannot reach the hub at .* \(status 503\); retrying/);
});

test('an answer of a proxy neither ends the wait for the decision, nor the request for the next code', async (t) => {
  const { hub, log, start } = await setUp(t);
  const access = start();
  const first = await hub.untilAccessRequested();
  for (const [status, body] of [
    [403, 'Blocked by this network'],
    [407, { error: 'Sign in' }],
    [200, '<html>Sign in to this network</html>'],
  ]) {
    const { refusedRequests } = hub;
    Object.assign(hub, { outageStatus: status, outageBody: body });
    await hub.waitUntil(() => hub.refusedRequests > refusedRequests, `a poll that is answered ${status}`);
  }
  hub.decide(first.code, 'expire');
  hub.outagePath = /requests$/;
  const { refusedRequests } = hub;
  await hub.waitUntil(() => hub.refusedRequests > refusedRequests, 'a refused request for the next code');
  hub.outageStatus = undefined;
  hub.decide((await hub.untilAccessRequested()).code, 'approve');
  assert.equal((await access).namespace, 'tests');
  assert.match(log.warnings[0], /^Cannot reach the hub at .* \(status 403\); retrying/);
});

test('if the hub limits the polls of a computer, the computer waits, and does not say that the hub is unreachable', async (t) => {
  const { hub, log, start } = await setUp(t);
  const access = start();
  const { code } = await hub.untilAccessRequested();
  hub.outageStatus = 429;
  await hub.waitUntil(() => hub.refusedRequests > 2, 'polls');
  hub.decide(code, 'approve');
  hub.outageStatus = undefined;
  await access;
  assert.deepEqual(log.warnings, []);
});

test('with a hub that has no pairing, the terminal asks for a token, and without a terminal the error says what to do', async (t) => {
  const { hub, input, start } = await setUp(t, { isTTY: true });
  hub.hasPairing = false;
  const access = start();
  input.write(`${TOKEN}\r`);
  assert.deepEqual(await access, { token: TOKEN, namespace: 'tests', isPaired: false });
  const service = await setUp(t);
  service.hub.hasPairing = false;
  await assert.rejects(service.start(), /There is no access token for .*--token-file FILE/);
});

test('a 401 or 404 of a proxy neither uses up a code, nor counts as a hub without pairing, nor as a refused token', async (t) => {
  for (const [status, body, end] of [
    [401, 'Sign in to this network', 'network"'],
    [404, { error: 'Not found' }, 'Not found\\. Check the address of the hub\\.'],
  ]) {
    const { hub, log, start } = await setUp(t);
    hub.codes.add('ABCD-EFGH');
    Object.assign(hub, { outageStatus: status, outageBody: body });
    const error = { status, code: 'http_error', message: new RegExp(`^The hub answered ${status} to POST /api/devices.*${end}$`) };
    await assert.rejects(start({ code: 'ABCD-EFGH' }), error);
    await assert.rejects(start(), error);
    await assert.rejects(start({}, { CLI_API_TOKEN: 'sgd_x' }), {
      status,
      message: new RegExp(`^The hub answered ${status} to POST /api/auth`),
    });
    assert.deepEqual(log.warnings, []);
    hub.outageStatus = undefined;
    assert.equal((await start({ code: 'ABCD-EFGH' })).isPaired, true);
  }
});

test('a token that the user gives is used instead of a stored token; for the token of a device, the hub names the namespace', async (t) => {
  const { hub, start } = await setUp(t);
  const first = start();
  hub.decide((await hub.untilAccessRequested()).code, 'approve');
  const { token } = await first;
  assert.deepEqual(await start({}, { CLI_API_TOKEN: 'secret:team' }), { token: 'secret:team', namespace: 'team', isPaired: false });
  assert.deepEqual(await start({ token }), { token, namespace: 'tests', isPaired: false });
  hub.revokeDevices();
  await assert.rejects(start({ token }), { status: 401, message: /This device was removed from the hub/ });
});

test('forgetToken deletes a stored token only if it is the refused token, and a damaged file counts as no token', async (t) => {
  const home = tempDir(t);
  const store = new DeviceStore({ home, hub: 'https://hub.example.com' });
  const device = { id: '1', name: 'laptop', kind: 'cli' };
  store.save({ token: 'sgd_new', namespace: 'team', device });
  forgetToken({ home, hub: store.hub }, 'sgd_old');
  assert.deepEqual(store.load(), { hub: store.hub, token: 'sgd_new', namespace: 'team', device });
  forgetToken({ home, hub: store.hub }, 'sgd_new');
  assert.equal(existsSync(store.file), false);
  writeFileSync(store.file, '{"hub":');
  assert.equal(store.load(), undefined);
});

test('the link to approve a device begins with the address that the user has named: the hub does not know the prefix of a proxy', async (t) => {
  const { hub, start, log } = await setUp(t);
  hub.pairingAnswer = { url: 'https://elsewhere.example.com/pair#x' };
  const access = start();
  const { code } = await hub.untilAccessRequested();
  hub.decide(code, 'approve');
  await access;
  assert.ok(log.infos[0].includes(`open ${hub.url}/pair#${code} in`), log.infos[0]);
});

test('a hub cannot write control characters to the terminal', async (t) => {
  const sequence = '\x1b]0;title\x07';
  for (const answer of [{ code: `RABC-${sequence}` }, { intervalMs: 1e12 }, { expiresAt: 'soon' }]) {
    const { hub, start, shown } = await setUp(t, { isTTY: true });
    hub.pairingAnswer = answer;
    await assert.rejects(start(), { code: 'not_a_hub' }, JSON.stringify(answer));
    assert.equal(shown(), '');
  }
  for (const answer of [{ namespace: `tests${sequence}` }, { token: 'x' }, { device: { id: '1', name: sequence, kind: 'cli' } }]) {
    const { hub, home, start } = await setUp(t);
    hub.pairingAnswer = answer;
    hub.codes.add('ABCD-EFGH');
    await assert.rejects(start({ code: 'ABCD-EFGH' }), { code: 'not_a_hub' }, JSON.stringify(answer));
    const access = start();
    hub.decide((await hub.untilAccessRequested()).code, 'approve');
    await assert.rejects(access, { code: 'not_a_hub' }, JSON.stringify(answer));
    assert.equal(existsSync(path.join(home, 'devices')), false);
  }
});

test('a 401 of the hub means that the token is refused, and a 401 of a proxy does not', () => {
  assert.equal(isTokenRefused(new HubError('revoked', { status: 401, code: 'device_revoked' })), true);
  assert.equal(isTokenRefused(new HubError('sign in to the network', { status: 401, code: 'http_error' })), false);
});

test('the name of a computer fits a device', () => {
  assert.equal(computerName(' ada\u0007s laptop '), 'adas laptop');
  assert.equal([...computerName('😀'.repeat(70))].length, 64);
  assert.equal(computerName(''), 'Computer');
});
