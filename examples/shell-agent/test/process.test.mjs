/** The program as a person starts it: its command line, its end, and several of it on one computer. */

import assert from 'node:assert/strict';
import { cpSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { agent, commandLine, ENTRY, hubAndFolders, program } from './support/program.mjs';
import { tempDir } from './support/repository.mjs';
import { eventually } from './support/wait.mjs';

test('help needs nothing, and a missing option is told with exit code 2', async (t) => {
  const help = program(t, ['--help']);
  assert.deepEqual(await help.exit, [0, null]);
  assert.match(help.collected.out, /--dir PATH/);
  const mistake = program(t, []);
  assert.deepEqual(await mistake.exit, [2, null]);
  assert.match(mistake.collected.err, /--dir PATH is missing/);
});

test('before set-up the program says what to run', async (t) => {
  const folder = tempDir(t);
  for (const part of ['index.mjs', 'src', 'package.json']) {
    cpSync(path.join(path.dirname(ENTRY), part), path.join(folder, part), { recursive: true });
  }
  const early = program(t, ['--dir', folder], { entry: path.join(folder, 'index.mjs') });
  assert.deepEqual(await early.exit, [1, null]);
  assert.equal(
    early.collected.err,
    "shell-agent: The project's packages are not installed yet. In its root, run: npm run setup\n",
  );
});

test('the program reports its session and machine, and ends cleanly on SIGINT', async (t) => {
  const world = await hubAndFolders(t);
  const { hub, dir } = world;
  const { child, exit, ids } = await agent(t, world, ['--name', 'My agent']);
  const session = hub.sessions.get(ids.session);
  assert.equal(session.tag, dir);
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
  assert.deepEqual([hub.registered(ids.session), hub.registered(ids.machine)], [[], []]);
});

test('each directory is a machine of its own, the same again after a restart', async (t) => {
  const world = await hubAndFolders(t);
  const first = await agent(t, world);
  const second = await agent(t, { ...world, dir: path.join(world.base, 'allowed') });
  assert.notEqual(first.ids.machine, second.ids.machine);
  first.child.kill('SIGTERM');
  await first.exit;
  const again = await agent(t, world);
  assert.deepEqual(again.ids, first.ids);
});

test('a second agent of a directory serves its session only, and says so', async (t) => {
  const world = await hubAndFolders(t);
  const first = await agent(t, world);
  const second = program(t, ...commandLine(world, ['--tag', 'another']));
  await second.says(/serving/);
  assert.match(second.collected.err, new RegExp(`Process ${first.child.pid} is this directory's machine already`));
  assert.doesNotMatch(second.collected.out, /machine/);
  const third = program(t, ...commandLine(world, ['--tag', 'a third', '--machine-id', first.ids.machine]));
  assert.deepEqual(await third.exit, [2, null]);
  assert.match(third.collected.err, /is machine .* already\. Give another, or --no-machine/);
  assert.equal(world.hub.registered(first.ids.machine).length, 2);
});

test('a second agent of a session ends at once, and says one thing: what to do', async (t) => {
  const world = await hubAndFolders(t);
  const first = await agent(t, world);
  const { exit, collected } = program(t, ...commandLine(world, []));
  assert.deepEqual(await exit, [1, null]);
  const sentence = `^shell-agent: Process ${first.child.pid} already serves this session\\. Give another --tag .*\n$`;
  assert.match(collected.err, new RegExp(sentence));
});

test('an agent without a machine ends with its session, and says why', async (t) => {
  const world = await hubAndFolders(t);
  const { exit, collected, ids } = await agent(t, world, ['--no-machine']);
  await world.hub.archive(ids.session);
  assert.deepEqual(await exit, [0, null]);
  assert.match(collected.err, /The session was ended from the web\.\n$/);
});

test('a hub that goes away is told of once, with what to do, and its return as well', async (t) => {
  const world = await hubAndFolders(t);
  const { hub } = world;
  const { collected, says } = await agent(t, world);
  hub.cut();
  await says(/The hub is back/);
  hub.cut();
  await says(/The hub is back[^]*The hub is back/);
  assert.equal(collected.err.match(/warning/g).length, 2);
  assert.match(collected.err, /warning: The hub at .* is away \(transport close\)\. Is it running\? `npm run dev`/);
});

test('an agent that is killed closes what it had begun when it is back, and runs what came meanwhile once', async (t) => {
  const world = await hubAndFolders(t);
  const { hub, dir } = world;
  const args = ['--auto-approve', '--no-machine'];
  const first = await agent(t, world, args);
  const sid = first.ids.session;
  const commands = ['echo before >> log', 'echo $$ > pid; echo begun >> log; exec sleep 60', 'echo waited >> log'];
  for (const command of commands) hub.say(sid, command);
  await hub.until(() => hub.heard(sid).includes(`> ${commands[1]}`), 'the second command to begin');
  // Its output says nothing, so only the file tells that it runs.
  await eventually(() => readFileSync(path.join(dir, 'log'), 'utf8').includes('begun'), 'the second command to run');
  first.child.kill('SIGKILL');
  await first.exit;
  // Nobody ends what an agent leaves behind that had no time to end it.
  process.kill(Number(readFileSync(path.join(dir, 'pid'), 'utf8')));
  hub.say(sid, 'echo away >> log');

  const second = await agent(t, world, args);
  await hub.ready(sid, 4);
  const ran = (command) => [`> ${command}`, '', 'Exit code 0.', '(ready)'];
  const expected = [
    ...ran(commands[0]),
    `> ${commands[1]}`,
    '! The agent was restarted while this ran.',
    'What came of it is not known, and it is not run again.',
    '(ready)',
    ...ran(commands[2]),
    ...ran('echo away >> log'),
  ];
  assert.deepEqual(hub.heard(sid), expected);
  assert.equal(readFileSync(path.join(dir, 'log'), 'utf8'), 'before\nbegun\nwaited\naway\n');

  // What is closed is not closed again.
  second.child.kill('SIGKILL');
  await second.exit;
  await agent(t, world, args);
  hub.say(sid, 'echo last >> log');
  await hub.ready(sid, 5);
  assert.deepEqual(hub.heard(sid), [...expected, ...ran('echo last >> log')]);
});

test('a command that ends with its agent gets no second end', async (t) => {
  const world = await hubAndFolders(t);
  const { hub } = world;
  const args = ['--auto-approve', '--no-machine'];
  const first = await agent(t, world, args);
  const sid = first.ids.session;
  hub.say(sid, 'echo begun; sleep 60');
  await hub.until(() => hub.heard(sid).includes('begun\n'), 'the command to say something');
  first.child.kill('SIGTERM');
  await first.exit;
  await agent(t, world, args);
  await hub.ready(sid, 1);
  assert.deepEqual(hub.heard(sid), ['> echo begun; sleep 60', '! begun\n', 'Ended by SIGTERM.', '(ready)']);
});

test('the state holds no secret of the hub', async (t) => {
  const world = await hubAndFolders(t);
  const { hub } = world;
  const { ids, child, exit } = await agent(t, world, ['--auto-approve', '--no-machine']);
  hub.say(ids.session, 'export A=1; echo "[$CLI_API_TOKEN]"');
  await hub.ready(ids.session, 1);
  assert.ok(hub.heard(ids.session).includes('[]\n'));
  child.kill('SIGTERM');
  await exit;
  const folder = path.join(world.base, 'home', 'sessions');
  const texts = readdirSync(folder).map((name) => readFileSync(path.join(folder, name), 'utf8'));
  assert.equal(texts.length, 1);
  assert.match(texts[0], /"A":"1"/);
  assert.doesNotMatch(texts[0], /secret:tests/);
});
