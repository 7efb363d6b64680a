/** The program as a process: its command line, and the sessions of its machine. */

import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { startApp } from 'session-gateway-cli-kit/app';
import { SessionProcesses } from 'session-gateway-cli-kit/processes';
import { isRunning } from 'session-gateway-cli-kit/system-processes';
import { FakeHub, TOKEN } from '../../packages/cli-kit/test/support/fake-hub.mjs';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { eventually, nextTurn, quietLog } from '../../packages/cli-kit/test/support/wait.mjs';
import { program } from '../src/program.mjs';
import { hasPseudoTerminal, runAtTerminal, runCli, startCli, WITHOUT_DEV_VARS } from './support/cli-process.mjs';
import { SCRIPTED_AGENT, askToRun } from './support/setup.mjs';

const SCRIPT = { title: 'Say hello', initialize: { agentCapabilities: { sessionCapabilities: { resume: {} } } } };

/** An in-memory hub, a directory to serve, and a PATH on which some programs are the scripted agent. */
async function setUp(t, ...programs) {
  const hub = await FakeHub.start();
  t.after(() => hub.stop());
  const base = tempDir(t);
  const [dir, bin, scriptHome] = ['served', 'bin', 'script'].map((name) => path.join(base, name));
  for (const folder of [dir, bin, scriptHome]) mkdirSync(folder);
  for (const name of programs) {
    writeFileSync(path.join(bin, name), `#!/bin/sh\nexec '${process.execPath}' '${SCRIPTED_AGENT}'\n`);
    chmodSync(path.join(bin, name), 0o755);
  }
  const env = {
    PATH: `${bin}:/usr/bin:/bin`,
    HOME: base,
    CLI_API_TOKEN: TOKEN,
    BARE_SECRET: TOKEN.split(':')[0],
    SESSION_GATEWAY_HOME: path.join(base, 'home'),
    SCRIPT: JSON.stringify(SCRIPT),
    SCRIPT_HOME: scriptHome,
  };
  const common = ['--dir', dir, '--hub', hub.url];
  const run = (...args) => runCli(t, [...common, ...args], env);
  const start = (...args) => startCli(t, hub, [...common, ...args], env);
  const startWithIpc = (...args) => startCli(t, hub, [...common, ...args], env, ['pipe', 'pipe', 'pipe', 'ipc']);
  const { CLI_API_TOKEN, BARE_SECRET, ...withoutToken } = env;
  /** Starts the CLI without a token, and not at a terminal. */
  const startUnpaired = (...args) => startCli(t, hub, [...common, ...args], withoutToken, 'pipe', WITHOUT_DEV_VARS);
  const startAtTerminal = (...args) => runAtTerminal(t, [...common, ...args], withoutToken, WITHOUT_DEV_VARS);
  return { hub, dir, run, start, startWithIpc, startUnpaired, startAtTerminal };
}

const say = (hub, sid, text) => hub.postMessage(sid, JSON.stringify([{ say: text }]));

test('an agent that is not installed ends the program with one sentence', async (t) => {
  const { run } = await setUp(t);
  const { exit, collected } = run('--agent', 'opencode');
  assert.deepEqual(await exit, [2, null]);
  assert.equal(
    collected.err,
    'session-gateway-agent: opencode is not installed: there is no program opencode on the PATH. Install it with: npm install -g opencode-ai@1.18.33\n',
  );
});

test('without --agent, the only installed agent is used; a newer hub causes only a warning', async (t) => {
  const { hub, start } = await setUp(t, 'qwen');
  hub.protocolVersion = 2;
  const { ids, collected } = await start();
  assert.equal(hub.sessions.get(ids.session).metadata.flavor, 'delta');
  await eventually(() => collected.err.includes('The hub is newer than this program'), 'the warning');
  say(hub, ids.session, 'hello');
  await hub.untilReady(ids.session, 1);
});

test('a machine lists its agents, and starts sessions with any of them', async (t) => {
  const { hub, dir, start } = await setUp(t, 'claude-agent-acp', 'qwen');
  const { ids, child, exit } = await start('--agent', 'claude');
  const own = hub.sessions.get(ids.session);
  await hub.waitUntil(() => own.metadata.agentName, 'the name of the agent');
  assert.deepEqual([own.metadata.flavor, own.metadata.agentName, own.tag], ['alpha', 'Claude Code', `${dir}#claude`]);
  assert.deepEqual(hub.machines.get(ids.machine).metadata.agents, [
    { id: 'claude', name: 'Claude Code', flavor: 'alpha' },
    { id: 'qwen', name: 'Qwen Code', flavor: 'delta' },
  ]);
  const spawned = await hub.call(ids.machine, 'spawnSession', { directory: dir, agent: 'delta' });
  assert.equal(spawned.success, true, spawned.error);
  await hub.waitUntil(() => hub.sessions.get(spawned.sessionId).metadata.agentName === 'Qwen Code', 'the name of the agent');
  say(hub, spawned.sessionId, 'hello');
  await hub.untilReady(spawned.sessionId, 1);
  assert.deepEqual(hub.transcript(spawned.sessionId), ['hello', '(ready)']);
  const refused = await hub.call(ids.machine, 'spawnSession', { directory: dir, agent: 'codex' });
  assert.match(refused.error, /^Codex is not installed/);
  child.kill('SIGTERM');
  assert.deepEqual(await exit, [0, null]);
});

test('a CLI with the IPC channel of a process manager does not run as the session of a runner', async (t) => {
  const { hub, startWithIpc } = await setUp(t, 'qwen');
  const { ids, child, exit } = await startWithIpc('--agent', 'qwen');
  const { startedBy, startedFromRunner } = hub.sessions.get(ids.session).metadata;
  assert.deepEqual([startedBy, startedFromRunner], ['terminal', false]);
  child.kill('SIGTERM');
  assert.deepEqual(await exit, [0, null]);
});

test('a CLI without a token pairs, and after it was killed it continues its session without pairing', async (t) => {
  const { hub, startUnpaired } = await setUp(t, 'qwen');
  const starting = startUnpaired('--agent', 'qwen');
  hub.decide((await hub.untilAccessRequested()).code, 'approve');
  const first = await starting;
  const { sessionId, error } = await hub.call(first.ids.machine, 'spawnSession', {
    directory: hub.sessions.get(first.ids.session).metadata.path,
  });
  assert.ok(sessionId, error);
  say(hub, sessionId, 'hello');
  await hub.untilReady(sessionId, 1);
  first.child.kill('SIGKILL');
  await first.exit;
  const second = await startUnpaired('--agent', 'qwen');
  assert.deepEqual(second.ids, first.ids);
  assert.equal(hub.accessRequests.length, 1);
  hub.revokeDevices();
  assert.deepEqual(await second.exit, [1, null]);
  assert.match(second.collected.err, /This device was removed from the hub\. To connect it again, start this program at a terminal\.\n$/);
});

test('a CLI at a terminal whose device is revoked pairs again and continues its session', {
  skip: !hasPseudoTerminal,
}, async (t) => {
  const { hub, startAtTerminal } = await setUp(t, 'qwen');
  const terminal = startAtTerminal('--agent', 'qwen');
  hub.decide((await hub.untilAccessRequested()).code, 'approve');
  await eventually(() => terminal.shown().includes('\nmachine '), 'the start');
  hub.revokeDevices();
  await eventually(() => terminal.shown().includes('it was removed from the devices of the hub'), 'the reason');
  hub.decide((await hub.untilAccessRequested()).code, 'approve');
  await eventually(() => terminal.shown().split('\nmachine ').length === 3, 'the second start');
  assert.equal(hub.sessions.size, 1);
  assert.equal(hub.devices.size, 1);
});

test('an agent that is installed while the machine runs is listed', async (t) => {
  const { hub, dir } = await setUp(t);
  const bin = path.join(path.dirname(dir), 'bin');
  const before = { ...process.env };
  t.after(() => Object.assign(process.env, before));
  Object.assign(process.env, { PATH: bin, SCRIPT: '{}', SCRIPT_HOME: bin });
  const options = {
    program,
    dir,
    home: path.join(bin, 'home'),
    hub: hub.url,
    token: TOKEN,
    log: quietLog(),
    machineKeepAliveIntervalMs: 10,
  };
  const app = await startApp(/** @type {any} */ ({ ...options, command: [process.execPath, SCRIPTED_AGENT], flavor: 'node' }));
  try {
    const listed = () => hub.machines.get(app.machine.id).metadata.agents.map(({ id }) => id);
    assert.deepEqual(listed(), ['node']);
    writeFileSync(path.join(bin, 'qwen'), '', { mode: 0o755 });
    await hub.waitUntil(() => listed().length === 2, 'the new agent');
    assert.deepEqual(listed(), ['node', 'qwen']);
  } finally {
    await app.stop();
  }
});

test('a CLI that is killed while the agent writes long code loses at most the last part', async (t) => {
  const { hub, start } = await setUp(t, 'claude-agent-acp');
  const { ids, child, exit } = await start('--agent', 'claude');
  const stored = hub.sessions.get(ids.session);
  const lines = Array.from({ length: 400 }, (_, index) => `let line${index} = ${'x'.repeat(60)};\n`);
  hub.postMessage(ids.session, JSON.stringify([{ say: 'Look:\n\n```js\n' }, ...lines.map((say) => ({ say })), { wait: 60_000 }]));
  const parts = () => hub.transcript(ids.session).filter((text) => text.includes('```js'));
  await hub.waitUntil(() => parts().length >= 2, 'two parts');
  await hub.waitUntil(() => stored.deltas?.some(({ text }) => text.includes(lines.at(-1))), 'the end of the live text');
  child.kill('SIGKILL');
  await exit;
  const kept = parts()
    .join('')
    .split('\n')
    .filter((line) => line.startsWith('let'))
    .map((line) => `${line}\n`);
  assert.deepEqual(kept, lines.slice(0, kept.length));
  const lost = lines.slice(kept.length).join('').length;
  assert.ok(lost < 10_000, `${lost} characters are lost`);
  for (const text of parts()) assert.match(text, /```js\n[^`]*```$/, 'each part is readable');
  await start('--agent', 'claude');
  await hub.untilReady(ids.session, 1);
  assert.match(hub.transcript(ids.session).at(-2), /restarted/);
});

test('an archived session is resumed with its agent', async (t) => {
  const { hub, dir, start } = await setUp(t, 'gemini', 'qwen');
  const { ids } = await start('--agent', 'gemini');
  const { sessionId, error } = await hub.call(ids.machine, 'spawnSession', { directory: dir, agent: 'qwen' });
  assert.ok(sessionId, error);
  const stored = hub.sessions.get(sessionId);
  const agentId = await hub.waitUntil(() => /^scripted/.test(stored.metadata.deltaSessionId) && stored.metadata.deltaSessionId);
  await hub.archive(sessionId);
  assert.deepEqual(await hub.resume(ids.machine, sessionId), { success: true, sessionId });
  await hub.waitUntil(() => stored.metadata.lifecycleState === 'initializing', 'the session to start again');
  assert.deepEqual([stored.metadata.deltaSessionId, stored.metadata.agentName], [agentId, 'Qwen Code']);
  say(hub, sessionId, 'again');
  await hub.untilReady(sessionId, 1);
  await hub.waitUntil(() => stored.metadata.lifecycleState === 'running', 'the session to run');
});

test('--service prints the definition of a service, installs and removes it', { skip: process.platform !== 'linux' }, async (t) => {
  const { dir, run } = await setUp(t, 'claude-agent-acp');
  const base = path.dirname(dir);
  for (const name of ['systemctl', 'loginctl']) {
    writeFileSync(path.join(base, 'bin', name), '#!/bin/sh\n', { mode: 0o755 });
  }
  const outputOf = async (...args) => {
    const { child, exit, collected } = run(...args);
    let out = '';
    child.stdout.on('data', (text) => (out += text));
    assert.deepEqual(await exit, [0, null], collected.err);
    return out;
  };
  const unit = await outputOf('--agent', 'claude', '--service');
  assert.ok(unit.includes(`"--dir" "${dir}" "--hub"`), unit);
  const installed = await outputOf('--agent', 'claude', '--service', 'install');
  const file = /^Installed and started \S+ \((.*)\)\.$/m.exec(installed)[1];
  assert.deepEqual([readFileSync(file, 'utf8'), path.dirname(file)], [unit, path.join(base, '.config', 'systemd', 'user')]);
  assert.match(await outputOf('--service', 'remove'), /^Stopped and removed /);
  assert.equal(existsSync(file), false);
});

test('the title of an opencode session is the first prompt, until the agent’s list has a title', async (t) => {
  const { hub, start } = await setUp(t, 'opencode');
  const { ids } = await start('--agent', 'opencode');
  const titles = [];
  const title = () => hub.sessions.get(ids.session).metadata.summary?.text;
  hub.on('change', () => titles.push(title()));
  say(hub, ids.session, 'hello');
  await hub.waitUntil(() => title() === 'Say hello', 'the title');
  assert.deepEqual([...new Set(titles)], [undefined, '[{"say":"hello"}]', 'Say hello']);
});

test('the agent ends with a killed bridge', async (t) => {
  const { hub, start } = await setUp(t, 'opencode');
  const { ids, child, exit } = await start('--agent', 'opencode');
  const { epsilonSessionId } = hub.sessions.get(ids.session).metadata;
  const pid = Number(epsilonSessionId.replace('scripted-', ''));
  assert.equal(isRunning(pid), true);
  child.kill('SIGKILL');
  await exit;
  await eventually(() => !isRunning(pid), 'the agent to end');
});

/** Waits until the agent asks to run `ls`. Returns the id of the request. */
async function askForLs(hub, sid) {
  hub.postMessage(sid, JSON.stringify(askToRun('call-1', 'ls')));
  return hub.waitUntil(() => hub.pendingRequest(sid), 'a permission request');
}

test('a bridge that was killed in a turn reports the interruption after its restart, and continues with the next message', async (t) => {
  const { hub, start } = await setUp(t, 'opencode');
  const first = await start('--agent', 'opencode');
  const sid = first.ids.session;
  const id = await askForLs(hub, sid);
  first.child.kill('SIGKILL');
  await first.exit;
  const again = await start('--agent', 'opencode');
  assert.equal(again.ids.session, sid);
  await hub.untilReady(sid, 1);
  const stored = hub.sessions.get(sid);
  await hub.waitUntil(() => stored.agentState.completedRequests[id], 'the request to be canceled');
  assert.deepEqual([stored.agentState.requests, stored.agentState.completedRequests[id].status], [{}, 'canceled']);
  assert.deepEqual(hub.transcript(sid), [
    '> ls',
    '! The bridge to the agent was restarted while this ran.',
    'The bridge to the agent was restarted during this turn. Its prompt is not sent again.',
    '(ready)',
  ]);
  say(hub, sid, 'back');
  await hub.untilReady(sid, 2);
  assert.equal(hub.transcript(sid).at(-2), 'back');
});

test('a spawned session that is killed ends at the hub, and is resumed', async (t) => {
  const { hub, dir, start } = await setUp(t, 'opencode');
  const { ids } = await start('--agent', 'opencode');
  const { sessionId } = await hub.call(ids.machine, 'spawnSession', { directory: dir, agent: 'opencode' });
  const stored = hub.sessions.get(sessionId);
  await hub.waitUntil(() => stored.active && stored.metadata.epsilonSessionId, 'the session to be active');
  process.kill(stored.metadata.hostPid, 'SIGKILL');
  await hub.waitUntil(() => !stored.active, 'the end of the session');
  assert.deepEqual(await hub.resume(ids.machine, sessionId), { success: true, sessionId });
  say(hub, sessionId, 'back');
  await hub.untilReady(sessionId, 1);
  assert.deepEqual(hub.transcript(sessionId), ['back', '(ready)']);
});

test('a machine that sleeps during a turn continues when it wakes', async (t) => {
  const { hub, start } = await setUp(t, 'opencode');
  const { ids, child } = await start('--agent', 'opencode');
  const sid = ids.session;
  const agentGroup = -Number(hub.sessions.get(sid).metadata.epsilonSessionId.replace('scripted-', ''));
  const id = await askForLs(hub, sid);
  for (const pid of [agentGroup, child.pid]) process.kill(pid, 'SIGSTOP');
  hub.cutConnections();
  await hub.waitUntil(() => hub.registeredMethods(sid).length === 0, 'the connection to be lost');
  say(hub, sid, 'sent while it sleeps');
  for (const pid of [agentGroup, child.pid]) process.kill(pid, 'SIGCONT');
  await hub.waitUntil(() => hub.registeredMethods(sid).includes('permission'), 'the session to be back');
  assert.deepEqual(await hub.call(sid, 'permission', { id, approved: true }), { success: true });
  await hub.untilReady(sid, 2);
  assert.deepEqual(hub.transcript(sid), ['> ls', 'ran ls', '(ready)', 'sent while it sleeps', '(ready)']);
});

test('no agent receives the access token, in its environment or its arguments', { skip: process.platform !== 'linux' }, async (t) => {
  const { hub, dir, start } = await setUp(t, 'opencode', 'qwen');
  const { ids } = await start('--agent', 'opencode');
  const { sessionId } = await hub.call(ids.machine, 'spawnSession', { directory: dir, agent: 'qwen' });
  for (const sid of [ids.session, sessionId]) {
    hub.postMessage(sid, JSON.stringify([{ env: true }]));
    await hub.untilReady(sid, 1);
    const environment = JSON.parse(hub.transcript(sid)[0]);
    assert.equal(environment.SCRIPT, JSON.stringify(SCRIPT));
    assert.doesNotMatch(JSON.stringify(environment), new RegExp(`CLI_API_TOKEN|BARE_SECRET|${TOKEN}`));
  }
  // The process of the spawned session received the token in a message.
  const { hostPid } = hub.sessions.get(sessionId).metadata;
  for (const file of ['environ', 'cmdline']) assert.ok(!readFileSync(`/proc/${hostPid}/${file}`, 'utf8').includes(TOKEN), file);
});

test('only files under the served directories are served', async (t) => {
  const { hub, dir, start } = await setUp(t, 'opencode');
  const { ids } = await start('--agent', 'opencode');
  const outside = path.dirname(dir);
  writeFileSync(path.join(dir, 'inside.txt'), 'inside');
  writeFileSync(path.join(outside, 'secret.txt'), 'secret');
  symlinkSync(path.join(outside, 'secret.txt'), path.join(dir, 'link.txt'));
  symlinkSync(outside, path.join(dir, 'up'));
  const read = (file) => hub.call(ids.session, 'readFile', { path: file });
  assert.equal(atob((await read('inside.txt')).content), 'inside');
  for (const file of ['link.txt', 'up/secret.txt', '../secret.txt', path.join(outside, 'secret.txt')]) {
    const { success, content, error } = await read(file);
    assert.deepEqual([success, content, typeof error], [false, undefined, 'string'], file);
  }
  const listed = await hub.call(ids.session, 'listDirectory', { path: 'up' });
  assert.equal(listed.success, false);
  const spawn = (directory) => hub.call(ids.machine, 'spawnSession', { directory, agent: 'opencode' });
  for (const directory of [outside, path.join(dir, 'up')])
    assert.match((await spawn(directory)).error, /is outside the directories this machine serves/);
  // Attachments must be files in the session's upload folder. Links in the folder are refused.
  const upload = await hub.call(ids.session, 'uploadFile', { filename: 'a.txt', content: btoa('x'), mimeType: 'text/plain' });
  const link = path.join(path.dirname(upload.path), 'link.txt');
  symlinkSync(path.join(outside, 'secret.txt'), link);
  hub.postMessage(ids.session, '', [{ filename: 'link.txt', path: link }]);
  await hub.untilReady(ids.session, 1);
  assert.equal(hub.transcript(ids.session)[0], 'link.txt is ignored: it is not an upload of this session.');
});

test('a session that does not start in time leaves neither its agent nor an empty session behind', async (t) => {
  const { hub, dir } = await setUp(t);
  const base = path.dirname(dir);
  const file = path.join(base, 'pid');
  const processes = new SessionProcesses({ program, token: TOKEN, home: path.join(base, 'home'), log: { info() {}, warn() {} } });
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const silentAgent = ['--', '/bin/sh', '-c', `echo $$ > '${file}.new'; mv '${file}.new' '${file}'; exec sleep 600`];
  const started = processes.start([`--dir=${dir}`, `--hub=${hub.url}`, '--no-machine', ...silentAgent], { readyTimeoutMs: 25_000 });
  while (!existsSync(file)) await nextTurn();
  assert.equal(hub.sessions.size, 1);
  t.mock.timers.tick(25_000);
  t.mock.timers.reset();
  const pid = Number(readFileSync(file, 'utf8'));
  t.after(() => isRunning(pid) && process.kill(pid, 'SIGKILL'));
  assert.deepEqual(await started, { success: false, error: 'The new session did not start within 25 s.' });
  await eventually(() => !isRunning(pid), 'the agent to end');
  await eventually(() => processes.size === 0, 'the bridge to end');
  assert.equal(hub.sessions.size, 0);
});
