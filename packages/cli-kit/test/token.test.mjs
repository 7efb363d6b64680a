/** The access token: its sources, and its removal from the environment of other programs. */

import assert from 'node:assert/strict';
import { chmodSync, writeFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { askForToken, findToken, isOnThisMachine, namespaceOf, removeToken, tokenAdvice, warnOfExposedToken } from '../src/token.mjs';
import { tempDir } from './support/repository.mjs';

const LOCAL = 'http://127.0.0.1:8787';
const DEVICE_TOKEN = `sgd_${'Ab-_'.repeat(10)}xyz`;
const REMOTE = 'https://hub.example.com';

/** A terminal on which the test types. `shown`: all text on the terminal. */
function terminal() {
  const input = Object.assign(new PassThrough(), { isTTY: true, setRawMode() {} });
  const output = Object.assign(new PassThrough(), { isTTY: true });
  return { input, output, shown: () => String(output.read() ?? '') };
}

const closedTerminal = () => ({ input: new PassThrough(), output: new PassThrough() });

test('the token comes from an option, the environment, or .dev.vars for a hub on this machine', (t) => {
  const dir = tempDir(t);
  const file = path.join(dir, '.dev.vars');
  const find = (options, env = {}) => findToken({ hub: LOCAL, ...options }, env, file);
  assert.equal(find(), undefined);
  writeFileSync(file, '# made\nJWT_SECRET=x\nCLI_API_TOKEN="from file"\n');
  assert.equal(find(), 'from file');
  assert.equal(find({}, { CLI_API_TOKEN: 'env' }), 'env');
  assert.equal(find({ token: 'option' }, { CLI_API_TOKEN: 'env' }), 'option');
  const tokenFile = path.join(dir, 'token');
  writeFileSync(tokenFile, 'in a file\n');
  assert.equal(find({ tokenFile }, { CLI_API_TOKEN: 'env' }), 'in a file');
  for (const hub of ['http://localhost:1', 'http://[::1]:8787', 'http://127.0.0.2']) assert.equal(find({ hub }), 'from file', hub);
  assert.equal(find({ hub: REMOTE }), undefined, 'the secret of the local hub is not sent to another hub');
  assert.deepEqual(['secret', 'secret:team', 'se:cret:team'].map(namespaceOf), ['default', 'team', 'team']);
});

test('a hub is on this machine if its host is `localhost`, or a loopback address or another address of this machine', () => {
  const [own] = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses.filter(({ family }) => family === 'IPv4'));
  const local = [
    'localhost',
    'LOCALHOST',
    '127.0.0.1',
    '127.1',
    '2130706433',
    '127.255.255.254',
    '[::1]',
    '[0:0::1]',
    '[::ffff:127.0.0.1]',
  ];
  for (const host of own ? [...local, own.address] : local) assert.equal(isOnThisMachine(`http://${host}:8787`), true, host);
  const remote = ['127.0.0.1.evil.example', '127.evil.example', '127.0.0.1@evil.example', 'localhost.evil.example', '128.0.0.1', '[::2]'];
  for (const host of remote) assert.equal(isOnThisMachine(`http://${host}:8787`), false, host);
});

test('a token file must have one line', (t) => {
  const tokenFile = path.join(tempDir(t), 'token');
  const find = () => findToken({ hub: LOCAL, tokenFile }, {}, '');
  assert.throws(find, { name: 'Error', message: `--token-file: cannot read ${tokenFile}: there is no such file.` });
  for (const text of ['', '\n', 'one\ntwo\n']) {
    writeFileSync(tokenFile, text);
    assert.throws(find, { message: `--token-file: ${tokenFile} must have one line, the access token.` }, JSON.stringify(text));
  }
});

test('a token that other users can read is used, with a warning that says what to do', { skip: process.platform === 'win32' }, (t) => {
  const tokenFile = path.join(tempDir(t), 'token');
  writeFileSync(tokenFile, 'secret', { mode: 0o600 });
  const warnings = [];
  const warn = (options) => warnOfExposedToken(options, (text) => warnings.push(text));
  warn({ tokenFile });
  assert.deepEqual(warnings, []);
  chmodSync(tokenFile, 0o644);
  warn({ tokenFile });
  warn({ token: 'secret' });
  assert.match(warnings.shift(), /can read the access token in .*token\. Run: chmod 600 /);
  assert.match(warnings.shift(), /--token shows the access token to all users of this computer.*--token-file FILE.*CLI_API_TOKEN/);
  assert.deepEqual(warnings, []);
});

test('a token is asked for at the terminal, and not shown', async () => {
  const { input, output, shown } = terminal();
  const token = askForToken(REMOTE, { input, output });
  input.write('secret:team\r');
  assert.equal(await token, 'secret:team');
  assert.equal(shown(), `Access token of ${REMOTE} (not shown): \n`);
});

test('without a terminal, or with an empty answer, the error says what to do', async () => {
  const { input, output } = terminal();
  const answer = askForToken(REMOTE, { input, output });
  input.write('\r');
  for (const token of [answer, askForToken(REMOTE, closedTerminal())]) {
    await assert.rejects(
      token,
      /^Error: There is no access token for https:\/\/hub\.example\.com\. Give --token-file FILE, or set CLI_API_TOKEN\.$/,
    );
  }
  await assert.rejects(askForToken(LOCAL, closedTerminal()), /npm run dev/);
});

test('the advice about a refused token depends on its kind', () => {
  assert.match(tokenAdvice('secret:team'), /CLI_API_TOKEN of the hub/);
  assert.match(tokenAdvice(DEVICE_TOKEN), /removed from the hub.*start this program at a terminal/);
});

test('the token and its secret are removed from an environment under any name', () => {
  const secret = 'secret-of-the-hub';
  const copies = {
    CLI_API_TOKEN: 'other',
    COPY: `Bearer ${secret}:team`,
    BARE: secret,
    HEADER: `x-token: ${secret}`,
    ANOTHER: `${secret}:other`,
  };
  for (const token of [`${secret}:team`, secret]) {
    const env = { PATH: '/bin', TEAM: 'team', ...copies };
    removeToken(env, token);
    assert.deepEqual(env, { PATH: '/bin', TEAM: 'team' }, token);
  }
});

test('if a weak secret is a part of the PATH, the PATH is not removed', () => {
  const env = { PATH: '/opt/workspace/bin:/bin', HOME: '/home/workspace', COPY: 'workspace' };
  removeToken(env, 'workspace:team');
  assert.deepEqual(env, { PATH: '/opt/workspace/bin:/bin', HOME: '/home/workspace' });
});

test('a short token is removed only from variables that contain nothing else', () => {
  const env = { HOME: '/home/dev', COPY: 'dev', TEAM: 'team', BOTH: 'dev:team', OTHER: 'dev:other', HEADER: 'Bearer dev:team' };
  removeToken(env, 'dev:team');
  assert.deepEqual(env, { HOME: '/home/dev', TEAM: 'team' });
});

test('the tokens of devices are removed from an environment, whichever token this program uses', () => {
  for (const token of [DEVICE_TOKEN, 'secret-of-the-hub']) {
    const env = { PATH: '/bin', NAME: 'sgd_not_a_token', COPY: DEVICE_TOKEN, HEADER: `Bearer ${DEVICE_TOKEN}` };
    removeToken(env, token);
    assert.deepEqual(env, { PATH: '/bin', NAME: 'sgd_not_a_token' });
  }
});
