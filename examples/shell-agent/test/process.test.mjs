/** The program as a person starts it, and the processes it starts itself. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { FakeHub, TOKEN } from './support/fake-hub.mjs';
import { tempDir } from './support/repository.mjs';

const ENTRY = fileURLToPath(new URL('../index.mjs', import.meta.url));

function program(t, args, env = {}) {
  const child = spawn(process.execPath, [ENTRY, ...args], {
    env: { ...process.env, CLI_API_TOKEN: '', HUB_URL: '', ...env },
  });
  const exit = once(child, 'exit');
  t.after(async () => {
    child.kill('SIGKILL');
    await exit;
  });
  const collected = { out: '', err: '' };
  child.stdout.on('data', (text) => (collected.out += text));
  child.stderr.on('data', (text) => (collected.err += text));
  return { child, exit, collected };
}

async function running(t) {
  const hub = await FakeHub.start();
  t.after(() => hub.stop());
  const base = tempDir(t);
  mkdirSync(path.join(base, 'served', 'sub'), { recursive: true });
  mkdirSync(path.join(base, 'allowed'));
  const dir = path.join(base, 'served');
  const started = program(
    t,
    ['--dir', dir, '--hub', hub.url, '--name', 'My agent', '--allow-dir', path.join(base, 'allowed')],
    { CLI_API_TOKEN: TOKEN, SHELL_AGENT_HOME: path.join(base, 'home') },
  );
  const ids = {};
  for await (const line of createInterface({ input: started.child.stdout })) {
    const [kind, id] = line.split(' ');
    ids[kind] = id;
    if (ids.session && ids.machine) break;
  }
  await hub.until(() => hub.registered(ids.machine).includes('spawnSession'), 'the machine to register');
  return { ...started, hub, base, dir, ids };
}

test('help needs nothing, and a missing option is told with exit code 2', async (t) => {
  const help = program(t, ['--help']);
  assert.deepEqual(await help.exit, [0, null]);
  assert.match(help.collected.out, /--dir PATH/);
  const mistake = program(t, []);
  assert.deepEqual(await mistake.exit, [2, null]);
  assert.match(mistake.collected.err, /--dir PATH is missing/);
});

test('the program reports its session and machine, and ends cleanly on SIGINT', async (t) => {
  const { hub, child, exit, dir, ids } = await running(t);
  const session = hub.sessions.get(ids.session);
  assert.equal(session.tag, dir);
  assert.equal(session.metadata.name, 'My agent');
  assert.equal(session.metadata.path, dir);
  assert.equal(session.metadata.machineId, ids.machine);
  assert.equal(session.metadata.hostPid, child.pid);
  assert.match(session.metadata.alphaSessionId, /^[0-9a-f-]{36}$/);
  assert.equal(hub.machines.get(ids.machine).runnerState.status, 'running');
  child.kill('SIGINT');
  assert.deepEqual(await exit, [0, null]);
  assert.equal(session.active, false);
  assert.equal(session.metadata.lifecycleState, 'completed');
  assert.equal(hub.machines.get(ids.machine).runnerState.status, 'stopped');
  assert.deepEqual([hub.registered(ids.session), hub.registered(ids.machine)], [[], []]);
});

test('sessions are spawned in allowed directories, and end with the process that started them', async (t) => {
  const { hub, child, exit, base, dir, ids } = await running(t);
  const call = (params) => hub.call(ids.machine, 'spawnSession', params);
  const spawned = await call({ directory: path.join(dir, 'sub'), agent: 'beta', model: 'large', yolo: true });
  assert.equal(spawned.success, true, spawned.error);
  const session = hub.sessions.get(spawned.sessionId);
  assert.equal(session.metadata.path, path.join(dir, 'sub'));
  assert.equal(session.metadata.flavor, 'beta');
  assert.equal(session.metadata.startedBy, 'runner');
  assert.equal(session.metadata.machineId, ids.machine);
  assert.match(session.metadata.betaSessionId, /^[0-9a-f-]{36}$/);
  assert.equal(session.permissionMode, 'yolo');
  hub.say(spawned.sessionId, 'pwd');
  await hub.until(() => hub.heard(spawned.sessionId).includes(`${path.join(dir, 'sub')}\n`), 'the output of pwd');
  const again = await call({ directory: dir });
  assert.equal(again.success, true, again.error);
  assert.notEqual(again.sessionId, ids.session);
  assert.equal((await call({ directory: path.join(base, 'allowed') })).success, true);

  for (const [params, reason] of [
    [{ directory: base }, /outside the directories/],
    [{ directory: '/' }, /outside the directories/],
    [{ directory: path.join(dir, 'missing') }, /There is no directory/],
    [{}, /"directory" is missing/],
    [{ directory: dir, agent: 'not a word' }, /"agent"/],
    [{ directory: dir, sessionType: 'worktree', worktreeName: 'x' }, /type "simple" only/],
    [{ directory: dir, resumeSessionId: 'x' }, /cannot resume/],
  ]) {
    const refused = await call(params);
    assert.equal(refused.success, false);
    assert.match(refused.error, reason);
  }

  // The session of the process itself may go; those it started need their machine.
  await hub.call(ids.session, 'killSession');
  await hub.until(() => hub.sessions.get(ids.session).active === false, 'the end of the first session');
  assert.equal((await hub.call(ids.machine, 'checkPathExists', { paths: [dir] }))[dir], true);
  child.kill('SIGTERM');
  assert.deepEqual(await exit, [0, null]);
  assert.equal(session.active, false);
  assert.equal(hub.sessions.get(again.sessionId).active, false);
});
