/** The program as a process: its command line, its end, and several instances on one computer. */

import assert from 'node:assert/strict';
import { cpSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { startAgent, commandLine, ENTRY, hubAndFolders, startProgram } from './support/program.mjs';
import { TOKEN } from '../../../packages/cli-kit/test/support/fake-hub.mjs';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { repository, tempDir } from '../../../packages/cli-kit/test/support/repository.mjs';
import { eventually } from '../../../packages/cli-kit/test/support/wait.mjs';

test('the exit code is 0 after --help, and 2 if a required option is missing', async (t) => {
  const help = startProgram(t, ['--help']);
  assert.deepEqual(await help.exit, [0, null]);
  assert.match(help.collected.out, /--dir PATH/);
  const invalid = startProgram(t, []);
  assert.deepEqual(await invalid.exit, [2, null]);
  assert.match(invalid.collected.err, /--dir PATH is missing/);
});

test('without npm packages the program names the command to run', async (t) => {
  const folder = tempDir(t);
  for (const part of ['index.mjs', 'src', 'package.json']) {
    cpSync(path.join(path.dirname(ENTRY), part), path.join(folder, part), { recursive: true });
  }
  const { exit, collected } = startProgram(t, ['--dir', folder], { entry: path.join(folder, 'index.mjs') });
  assert.deepEqual(await exit, [1, null]);
  assert.equal(collected.err, "shell-agent: The project's npm packages are not installed. In its root directory, run: npm run setup\n");
});

test('the program prints its session and machine, and ends both on SIGINT', async (t) => {
  const fixture = await hubAndFolders(t);
  const { hub, dir } = fixture;
  const { child, exit, ids } = await startAgent(t, fixture, ['--name', 'My agent']);
  const session = hub.sessions.get(ids.session);
  assert.equal(session.tag, `${dir}#${session.metadata.installationId}`);
  assert.equal(session.metadata.name, 'My agent');
  assert.equal(session.metadata.path, dir);
  assert.equal(session.metadata.machineId, ids.machine);
  assert.equal(session.metadata.hostPid, child.pid);
  assert.match(session.metadata.alphaSessionId, /^[0-9a-f-]{36}$/);
  const machine = hub.machines.get(ids.machine);
  assert.equal(machine.runnerState.status, 'running');
  assert.match(machine.metadata.displayName, / \(served\)$/);
  child.kill('SIGINT');
  assert.deepEqual(await exit, [0, null]);
  assert.equal(session.active, false);
  assert.equal(session.metadata.lifecycleState, 'completed');
  assert.equal(machine.runnerState.status, 'stopped');
  assert.deepEqual([hub.registeredMethods(ids.session), hub.registeredMethods(ids.machine)], [[], []]);
});

test('a second agent of a directory serves only its session, and logs why', async (t) => {
  const fixture = await hubAndFolders(t);
  const first = await startAgent(t, fixture);
  const second = startProgram(t, ...commandLine(fixture, ['--tag', 'another']));
  await second.untilLogged(/serving/);
  assert.match(second.collected.err, new RegExp(`Process ${first.child.pid} already serves a machine for this directory`));
  assert.doesNotMatch(second.collected.out, /machine/);
  const third = startProgram(t, ...commandLine(fixture, ['--tag', 'a third', '--machine-id', first.ids.machine]));
  assert.deepEqual(await third.exit, [1, null], 'the other process may end, so a service manager starts this one again');
  assert.match(third.collected.err, /already is machine .*\. Give another --machine-id, or --no-machine/);
  assert.equal(fixture.hub.registeredMethods(first.ids.machine).length, 4);
});

test('a second agent for the same session exits, and its only output says what to do', async (t) => {
  const fixture = await hubAndFolders(t);
  const first = await startAgent(t, fixture);
  const { exit, collected } = startProgram(t, ...commandLine(fixture, []));
  assert.deepEqual(await exit, [1, null]);
  const message = `^shell-agent: Process ${first.child.pid} already serves this session\\. .* give another --tag .*\n$`;
  assert.match(collected.err, new RegExp(message));
});

test('an agent without a machine ends when its session is archived, and logs why', async (t) => {
  const fixture = await hubAndFolders(t);
  const { exit, collected, ids } = await startAgent(t, fixture, ['--no-machine']);
  await fixture.hub.archive(ids.session);
  assert.deepEqual(await exit, [0, null]);
  assert.match(collected.err, /The session was ended from the web\.\n$/);
});

test('when the hub is lost and when it is back, one line is logged each time, and the first says what to do', async (t) => {
  const fixture = await hubAndFolders(t);
  const { hub } = fixture;
  const { collected, untilLogged } = await startAgent(t, fixture);
  hub.cutConnections();
  await untilLogged(/Connected to the hub again/);
  hub.cutConnections();
  await untilLogged(/Connected to the hub again[^]*Connected to the hub again/);
  assert.equal(collected.err.match(/warning/g).length, 2);
  assert.match(collected.err, /warning: Cannot reach the hub at .* \(transport close\); retrying\. .*`npm run dev`/);
});

test('after a killed agent is restarted, it completes its interrupted call, and runs later messages once', async (t) => {
  const fixture = await hubAndFolders(t);
  const { hub, dir } = fixture;
  const args = ['--auto-approve', '--no-machine'];
  const first = await startAgent(t, fixture, args);
  const sid = first.ids.session;
  const commands = ['echo before >> log', 'echo $$ > pid; echo begun >> log; exec sleep 60', 'echo waited >> log'];
  for (const command of commands) hub.postMessage(sid, command);
  await hub.waitUntil(() => hub.transcript(sid).includes(`> ${commands[1]}`), 'the second command to begin');
  // The file shows that the command runs, because the command prints nothing.
  await eventually(() => readFileSync(path.join(dir, 'log'), 'utf8').includes('begun'), 'the second command to run');
  first.child.kill('SIGKILL');
  await first.exit;
  // A killed agent does not end its running command.
  process.kill(Number(readFileSync(path.join(dir, 'pid'), 'utf8')));
  hub.postMessage(sid, 'echo away >> log');

  const second = await startAgent(t, fixture, args);
  await hub.untilReady(sid, 4);
  const ran = (command) => [`> ${command}`, '', 'Exit code 0.', '(ready)'];
  const expected = [
    ...ran(commands[0]),
    `> ${commands[1]}`,
    '! The agent was restarted while this command ran.',
    'The outcome is unknown. The command is not run again.',
    '(ready)',
    ...ran(commands[2]),
    ...ran('echo away >> log'),
  ];
  assert.deepEqual(hub.transcript(sid), expected);
  assert.equal(readFileSync(path.join(dir, 'log'), 'utf8'), 'before\nbegun\nwaited\naway\n');

  // A completed call is not completed again.
  second.child.kill('SIGKILL');
  await second.exit;
  await startAgent(t, fixture, args);
  hub.postMessage(sid, 'echo last >> log');
  await hub.untilReady(sid, 5);
  assert.deepEqual(hub.transcript(sid), [...expected, ...ran('echo last >> log')]);
});

test('if the agent stops its running command and ends, the next agent does not complete this command again', async (t) => {
  const fixture = await hubAndFolders(t);
  const { hub } = fixture;
  const args = ['--auto-approve', '--no-machine'];
  const first = await startAgent(t, fixture, args);
  const sid = first.ids.session;
  hub.postMessage(sid, 'echo begun; sleep 60');
  await hub.waitUntil(() => hub.transcript(sid).includes('begun\n'), 'the command to say something');
  first.child.kill('SIGTERM');
  await first.exit;
  await startAgent(t, fixture, args);
  await hub.untilReady(sid, 1);
  assert.deepEqual(hub.transcript(sid), ['> echo begun; sleep 60', '! begun\n', 'Ended by SIGTERM.', '(ready)']);
});

test('the token can be read from a file, which other users of the computer cannot read', async (t) => {
  const fixture = await hubAndFolders(t);
  const file = path.join(fixture.base, 'token');
  writeFileSync(file, `${TOKEN}\n`, { mode: 0o600 });
  const [args, env] = commandLine(fixture, ['--no-machine']);
  const start = (...more) => startProgram(t, [...args, ...more], { ...env, CLI_API_TOKEN: '' });
  const withFile = start('--token-file', file);
  await withFile.untilLogged(/serving/);
  assert.doesNotMatch(withFile.collected.err, /warning/);
  const withOption = start('--token', TOKEN, '--tag', 'another');
  await withOption.untilLogged(/serving/);
  assert.match(withOption.collected.err, /warning: --token shows the access token to all users of this computer/);
  const withBoth = start('--token', TOKEN, '--token-file', file);
  assert.deepEqual(await withBoth.exit, [2, null]);
  assert.match(withBoth.collected.err, /Give either --token-file or --token, not both\./);
});

test('neither commands nor the state files have the access token', async (t) => {
  const fixture = await hubAndFolders(t);
  const { hub } = fixture;
  const { ids, child, exit } = await startAgent(t, fixture, ['--auto-approve', '--no-machine']);
  hub.postMessage(ids.session, 'export A=1; echo "[$CLI_API_TOKEN]"');
  await hub.untilReady(ids.session, 1);
  assert.ok(hub.transcript(ids.session).includes('[]\n'));
  child.kill('SIGTERM');
  await exit;
  const folder = path.join(fixture.base, 'home', 'sessions');
  const texts = readdirSync(folder).map((name) => readFileSync(path.join(folder, name), 'utf8'));
  assert.equal(texts.length, 1);
  assert.match(texts[0], /"A":"1"/);
  assert.doesNotMatch(texts[0], /secret:tests/);
});

test('the programs that git runs do not have the access token, nor do the processes of spawned sessions', async (t) => {
  const fixture = await hubAndFolders(t);
  const { hub, base, dir } = fixture;
  const { git, write, commit } = repository(t, dir);
  commit({ '.gitattributes': '*.txt filter=spy\n', 'a.txt': 'one\n' });
  const seen = path.join(base, 'environment.txt');
  // Of the filters, only the user's own ones run.
  process.env.GIT_CONFIG_GLOBAL = path.join(base, 'gitconfig');
  t.after(() => delete process.env.GIT_CONFIG_GLOBAL);
  git('config', '--file', process.env.GIT_CONFIG_GLOBAL, 'filter.spy.clean', `env > '${seen}'; cat`);
  write('a.txt', 'two\n');
  const { ids } = await startAgent(t, fixture);
  const spawned = await hub.call(ids.machine, 'spawnSession', { directory: dir });
  for (const sid of [ids.session, spawned.sessionId]) {
    const { files } = await hub.call(sid, 'gitStatus', {});
    assert.deepEqual(pluck(files, 'path'), ['a.txt']);
    const environment = readFileSync(seen, 'utf8');
    rmSync(seen);
    assert.match(environment, /^GIT_OPTIONAL_LOCKS=0$/m);
    assert.ok(!environment.includes(TOKEN));
  }
  if (process.platform !== 'linux') return;
  const { hostPid } = hub.sessions.get(spawned.sessionId).metadata;
  assert.ok(!readFileSync(`/proc/${hostPid}/environ`, 'utf8').includes(TOKEN));
});

test('a program whose output nobody reads any more still ends its session', async (t) => {
  const fixture = await hubAndFolders(t);
  const { child, exit, ids } = await startAgent(t, fixture);
  child.stdout.destroy();
  child.stderr.destroy();
  // Logs that the program stops.
  child.kill('SIGTERM');
  assert.deepEqual(await exit, [0, null]);
  assert.equal(fixture.hub.sessions.get(ids.session).active, false);
});
