/** User services: their definitions, and how they are installed and removed. */

import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { readArgs } from '../src/program.mjs';
import { installService, removeService } from '../src/service-manager.mjs';
import { permanentPlace } from '../src/permanent-copy.mjs';
import { describeService } from '../src/service.mjs';

const service = (platform, ...argv) =>
  describeService({
    argv,
    env: { PATH: '/usr/bin', CLI_API_TOKEN: 'secret', HUB_URL: 'https://hub' },
    platform,
    node: '/bin/node',
    entry: '/opt/index.mjs',
    dir: '/home/ada/my code',
    home: '/home/ada',
  });

test('a systemd unit starts the same command without the token', () => {
  const { name, file, define } = service(
    'linux',
    '--agent',
    'claude',
    '--dir',
    'my code',
    '--token',
    'secret',
    '--token-file=/home/ada/token',
    '--code=ABCD-EFGH',
    '--name=50%',
  );
  const unit = define('secret');
  const exec = /^ExecStart=(.*)$/m.exec(unit)[1];
  assert.equal(exec, '"/bin/node" "/opt/index.mjs" "--dir" "/home/ada/my code" "--agent" "claude" "--name=50%%"');
  assert.match(unit, /^Environment="PATH=\/usr\/bin"\nEnvironment="HUB_URL=https:\/\/hub"$/m);
  assert.equal(file, `/home/ada/.config/systemd/user/${name}.service`);
  assert.doesNotMatch(unit, /secret|ABCD/);
});

test('control characters in the name of a folder or in a variable add no lines to a systemd unit', () => {
  const evil = '/home/ada/x\n[Service]\nExecStartPre=touch pwned\r\t\\';
  const describe = (changes = {}) =>
    describeService({ argv: [], env: { PATH: '/a\n/b$c' }, platform: 'linux', node: 'n', entry: 'e', dir: evil, home: '/h', ...changes });
  const lines = describe().define().split('\n');
  const usual = describe({ dir: '/home/ada/x' }).define().split('\n');
  assert.deepEqual(
    lines.map((line) => line.split('=')[0].split('/')[0]),
    usual.map((line) => line.split('=')[0].split('/')[0]),
  );
  assert.ok(lines.includes('ExecStart="n" "e" "--dir" "/home/ada/x\\x0a[Service]\\x0aExecStartPre=touch pwned\\x0d\\x09\\\\"'));
  assert.ok(lines.includes('Environment="PATH=/a\\x0a/b$c"'), '`$` is expanded only in commands');
  // A backslash at the end of a line would join the next line.
  assert.deepEqual(
    lines.filter((line) => line.endsWith('\\')),
    [],
  );
  assert.throws(() => describe({ home: '/h\nExecStart=x' }), /The path of the configuration has control characters: "\/h\\nExecStart=x/);
});

test('a service whose computer was removed from the hub, or whose arguments are invalid, is not started again', () => {
  assert.match(service('linux').define(), /^Restart=on-failure\nRestartSec=5\nRestartPreventExitStatus=2 77$/m);
  // launchd can only tell success from failure.
  assert.match(service('darwin').define(), /<key>SESSION_GATEWAY_REFUSED_EXIT_CODE<\/key>\n {4}<string>0<\/string>/);
});

test('a launchd agent has the command of the agent after --', () => {
  const { define } = service('darwin', '--dir=x', '--token=secret', '--', 'my-agent', '--token', 'a<b');
  const plist = define();
  const words = [...plist.slice(plist.indexOf('<array>'), plist.indexOf('</array>')).matchAll(/<string>(.*)<\/string>/g)];
  const command = ['/bin/node', '/opt/index.mjs', '--dir', '/home/ada/my code', '--', 'my-agent', '--token', 'a&lt;b'];
  assert.deepEqual(
    words.map(([, word]) => word),
    command,
  );
  assert.doesNotMatch(plist, /secret/);
  assert.match(define('a&b'), /<string>a&amp;b<\/string>/);
});

test('on another system the option is refused', () => {
  assert.throws(() => service('win32'), /supports systemd \(Linux\) and launchd \(macOS\), not win32/);
});

test('services of two directories with the same name have different names', () => {
  const nameOf = (dir) => describeService({ argv: [], env: {}, platform: 'linux', node: 'n', entry: 'e', dir, home: '/h' }).name;
  assert.match(nameOf('/a/app'), /^session-gateway-agent-app-[0-9a-f]{6}$/);
  assert.notEqual(nameOf('/a/app'), nameOf('/b/app'));
});

test('the option names an action, and removing needs no agent', () => {
  const read = (...argv) => readArgs(['--dir', '.', ...argv], {}).service;
  assert.deepEqual(read('--service', '--agent', 'codex'), { action: 'print', argv: ['--dir', '.', '--agent', 'codex'] });
  assert.deepEqual(read('--service', 'install', '--agent', 'codex'), { action: 'install', argv: ['--dir', '.', '--agent', 'codex'] });
  assert.equal(read('--service=remove').action, 'remove');
  assert.equal(read('--', 'my-agent', '--service'), undefined);
  assert.throws(() => read('--service=start', '--agent', 'codex'), /--service must be one of print, install, remove, not "start"/);
  assert.throws(() => read('--service', '--agent', 'codex', '--new'), /--new cannot be used with --service/);
});

/** A home directory, and a service manager that records its calls. A call that contains the word `failing` fails. */
function setUp(t, platform) {
  const home = tempDir(t);
  const bin = path.join(home, 'bin');
  const log = path.join(home, 'calls');
  mkdirSync(bin);
  for (const name of ['systemctl', 'loginctl', 'launchctl']) {
    const script = `#!/bin/sh\necho "${name} $*" >> '${log}'\ncase "$*" in *"$FAILING"*) echo refused >&2; exit 1;; esac\n`;
    writeFileSync(path.join(bin, name), script);
    chmodSync(path.join(bin, name), 0o755);
  }
  const env = { PATH: `${bin}:/usr/bin:/bin`, FAILING: 'nothing' };
  const program = { argv: ['--agent', 'codex'], env, platform, node: '/bin/node', entry: '/opt/index.mjs', dir: '/code/app', home };
  const calls = () => (existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n') : []);
  return { home, env, calls, described: describeService(program) };
}

const isPrivate = (file) => (statSync(file).mode & 0o077) === 0;

test('a systemd service is installed, replaced and removed', async (t) => {
  const { env, calls, described } = setUp(t, 'linux');
  const { name, file, environmentFile } = described;
  const install = (token) => installService(described, { token, env });
  assert.match(await install('first'), new RegExp(`^Installed and started ${name} `));
  assert.deepEqual(calls(), [
    'systemctl --user daemon-reload',
    `systemctl --user enable ${name}`,
    `systemctl --user restart ${name}`,
    'loginctl enable-linger',
  ]);
  assert.match(readFileSync(file, 'utf8'), new RegExp(`^EnvironmentFile=${environmentFile}$`, 'm'));
  assert.equal(readFileSync(environmentFile, 'utf8'), 'CLI_API_TOKEN="first"\n');
  assert.ok(isPrivate(environmentFile) && isPrivate(file));
  writeFileSync(environmentFile, 'CLI_API_TOKEN="first"\nOPENAI_API_KEY=key\n');
  await install('a"b');
  assert.equal(readFileSync(environmentFile, 'utf8'), 'CLI_API_TOKEN="a\\"b"\nOPENAI_API_KEY=key\n');
  const text = await removeService(described, { env });
  assert.match(text, /keeps your other variables/);
  assert.equal(calls().at(-1), `systemctl --user disable --now ${name}`);
  assert.deepEqual([existsSync(file), readFileSync(environmentFile, 'utf8')], [false, 'OPENAI_API_KEY=key\n']);
  await assert.rejects(removeService(described, { env }), /There is no service for this directory/);
});

test('a launchd agent is installed with the token, replaced and removed', async (t) => {
  const { env, calls, described } = setUp(t, 'darwin');
  const { file } = described;
  await installService(described, { token: 'secret', env });
  assert.match(readFileSync(file, 'utf8'), /<string>secret<\/string>/);
  assert.ok(isPrivate(file));
  await installService(described, { token: 'secret', env });
  await removeService(described, { env });
  assert.deepEqual(
    calls(),
    ['load', 'unload', 'load', 'unload'].map((action) => `launchctl ${action} -w ${file}`),
  );
  assert.equal(existsSync(file), false);
});

test('the service of a paired computer has no token, because the service reads the stored token', async (t) => {
  for (const platform of ['linux', 'darwin']) {
    const { env, described } = setUp(t, platform);
    await installService(described, { token: null, env });
    for (const file of [described.file, described.environmentFile].filter(Boolean)) {
      assert.doesNotMatch(readFileSync(file, 'utf8'), platform === 'linux' ? /^CLI_API_TOKEN/m : /CLI_API_TOKEN/, file);
    }
  }
  const inFolder = (env) => describeService({ argv: [], env, platform: 'linux', node: 'n', entry: 'e', dir: '/a', home: '/h' }).define();
  assert.match(inFolder({ SESSION_GATEWAY_HOME: '/state' }), /^Environment="SESSION_GATEWAY_HOME=\/state"$/m);
});

test('the error of a service manager is quoted, and a missing service manager is named', async (t) => {
  const { env, described } = setUp(t, 'linux');
  const install = (changes) => installService(described, { token: 'x', env: { ...env, ...changes } });
  await assert.rejects(install({ FAILING: 'enable' }), /^Error: systemctl --user enable \S+ failed: refused$/);
  await assert.rejects(install({ PATH: '/nowhere' }), /there is no program systemctl on the PATH/);
  assert.match(await install({ FAILING: 'enable-linger' }), /It ends when you log out\. To keep it running, run: loginctl enable-linger/);
});

test('a program that npx started is copied once, with its packages, to a folder that stays', async (t) => {
  const base = tempDir(t);
  const npx = path.join(base, '.npm', '_npx', '1a2b');
  const entry = path.join(npx, 'node_modules', 'session-gateway-agent', 'index.mjs');
  const library = path.join(npx, 'node_modules', 'library', 'index.mjs');
  for (const file of [entry, library]) {
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, 'code');
  }
  const stateFolder = path.join(base, 'state');
  const place = permanentPlace(entry, { stateFolder, version: '1.2.3' });
  const folder = path.join(stateFolder, 'program', '1.2.3');
  assert.equal(place.entry, path.join(folder, 'node_modules', 'session-gateway-agent', 'index.mjs'));
  assert.equal(existsSync(stateFolder), false, 'printing a service copies nothing');
  await place.copy();
  rmSync(npx, { recursive: true });
  await place.copy();
  assert.equal(readFileSync(place.entry, 'utf8'), 'code');
  assert.ok(existsSync(path.join(folder, 'node_modules', 'library', 'index.mjs')));
  assert.deepEqual(readdirSync(path.join(stateFolder, 'program')), ['1.2.3']);
});

test('a program in a clone or in a global installation stays where it is', () => {
  const entry = '/usr/lib/node_modules/session-gateway-agent/index.mjs';
  assert.equal(permanentPlace(entry, { stateFolder: '/state', version: '1.2.3' }).entry, entry);
});
