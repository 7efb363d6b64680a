/** The program as a process: its command line, and the sessions of its machine. */

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startApp } from 'session-gateway-cli-kit/app';
import { TOKEN } from '../../packages/cli-kit/test/support/fake-hub.mjs';
import { eventually, quietLog } from '../../packages/cli-kit/test/support/wait.mjs';
import { program } from '../src/program.mjs';
import { hasPseudoTerminal } from './support/cli-process.mjs';
import { SCRIPT, say, setUpProcess } from './support/process-setup.mjs';
import { SCRIPTED_AGENT } from './support/setup.mjs';

test('an agent that is not installed ends the program with one sentence, so that a service starts again', async (t) => {
  const { run } = await setUpProcess(t);
  const { exit, collected } = run('--agent', 'opencode');
  assert.deepEqual(await exit, [1, null]);
  assert.equal(
    collected.err,
    'session-gateway-agent: opencode is not installed: there is no program opencode on the PATH. Install it with: npm install -g opencode-ai@1.18.33\n',
  );
});

test('--version prints the version; Windows and an old Node are refused before other modules are imported', () => {
  const entry = fileURLToPath(new URL('../index.mjs', import.meta.url));
  const { stdout } = spawnSync(process.execPath, [entry, '--version'], { encoding: 'utf8' });
  assert.equal(stdout, `${program.version}\n`);
  /** Runs the program with another value of `process[name]`, and without other modules. */
  const runWith = (/** @type {string} */ name, /** @type {unknown} */ value) => {
    const setUpProcess = `import { registerHooks } from 'node:module';
      registerHooks({ resolve: (name, context, next) => (name.endsWith('/cli/index.mjs') ? next(name, context) : process.exit(9)) });
      Object.defineProperty(process, '${name}', { value: ${JSON.stringify(value)} });`;
    const module = `data:text/javascript,${encodeURIComponent(setUpProcess)}`;
    return spawnSync(process.execPath, ['--import', module, entry], { encoding: 'utf8' });
  };
  const windows = runWith('platform', 'win32');
  assert.equal(windows.status, 1);
  assert.match(windows.stderr, /^session-gateway-agent: On Windows, agents run only in WSL\./);
  const { status, stderr } = runWith('versions', { node: '18.20.8' });
  const sentence = 'Node 20 or newer is needed, but this is Node 18.20.8. Install a newer version, for example from https://nodejs.org.';
  assert.deepEqual([status, stderr], [1, `session-gateway-agent: ${sentence}\n`]);
});

test("with an agent's own program only, its adapter is fetched once, and the agent starts", async (t) => {
  const { hub, bin, start } = await setUpProcess(t, 'claude');
  const npm = `mkdir -p node_modules/.bin && cp '${bin}/claude' node_modules/.bin/claude-agent-acp && echo "$@" >> '${bin}/fetched'`;
  writeFileSync(path.join(bin, 'npm'), `#!/bin/sh\n${npm}\n`, { mode: 0o755 });
  for (const expected of [1, 0]) {
    const { ids, child, exit, collected } = await start();
    say(hub, ids.session, 'hello');
    await hub.waitUntil(() => hub.transcript(ids.session).includes('hello'), 'the answer');
    const reported = collected.err.match(/Claude Code is here; its adapter \S+ is fetched once \(400 MB on disk\)\./g) ?? [];
    assert.equal(reported.length, expected, collected.err);
    child.kill('SIGTERM');
    await exit;
  }
  assert.match(readFileSync(path.join(bin, 'fetched'), 'utf8'), /^install --prefix \S+ .*@agentclientprotocol\/claude-agent-acp@[\d.]+\n$/);
});

test('an adapter that npm cannot fetch ends the program with the reason, and the next start fetches it again', async (t) => {
  const { bin, run } = await setUpProcess(t, 'claude');
  writeFileSync(path.join(bin, 'npm'), '#!/bin/sh\necho "npm error code E404\nnpm error 404 Not Found" >&2\nexit 1\n', { mode: 0o755 });
  for (const _ of [1, 2]) {
    const { exit, collected } = run('--agent', 'claude');
    assert.deepEqual(await exit, [1, null]);
    assert.match(collected.err, /Claude Code did not start: npm cannot fetch its adapter @\S+: Not Found\n/);
  }
});

test('without --agent, the only installed agent is used; a newer hub causes only a warning', async (t) => {
  const { hub, start } = await setUpProcess(t, 'qwen');
  hub.protocolVersion = 2;
  const { ids, collected } = await start();
  assert.equal(hub.sessions.get(ids.session).metadata.flavor, 'delta');
  await eventually(() => collected.err.includes('The hub is newer than this program'), 'the warning');
  say(hub, ids.session, 'hello');
  await hub.untilReady(ids.session, 1);
});

test('a machine lists its agents, and starts sessions with any of them', async (t) => {
  const { hub, dir, start } = await setUpProcess(t, 'claude-agent-acp', 'qwen');
  const { ids, child, exit } = await start('--agent', 'claude');
  const own = hub.sessions.get(ids.session);
  await hub.waitUntil(() => own.metadata.agentName, 'the name of the agent');
  const { flavor, agentName, installationId } = own.metadata;
  assert.deepEqual([flavor, agentName, own.tag], ['alpha', 'Claude Code', `${dir}#claude#${installationId}`]);
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
  const withOptions = await hub.call(ids.machine, 'spawnSession', {
    directory: dir,
    agent: 'qwen',
    options: { effort: 'high', fast: true },
  });
  assert.equal(withOptions.success, true, withOptions.error);
  await hub.waitUntil(
    () => hub.sessions.get(withOptions.sessionId).metadata.options?.every(({ value }) => value === 'high' || value === true),
    'the options',
  );
  for (const options of [[1], 'x', null, { effort: 3 }, { 'a=b': 'x' }, { effort: '' }, { effort: 'x'.repeat(201) }]) {
    const { success, error } = await hub.call(ids.machine, 'spawnSession', { directory: dir, agent: 'qwen', options });
    assert.deepEqual([success, error], [false, '"options" must be an object of texts and booleans by the id of the option.']);
  }
  child.kill('SIGTERM');
  assert.deepEqual(await exit, [0, null]);
});

test('a runner forks a session, also into a new worktree', async (t) => {
  const { hub, dir, start } = await setUpProcess(t, 'qwen');
  execFileSync('git', ['init', '--quiet', dir]);
  execFileSync('git', [
    '-C',
    dir,
    '-c',
    'user.name=Ada',
    '-c',
    'user.email=ada@example.com',
    'commit',
    '--quiet',
    '--allow-empty',
    '-m',
    'first',
  ]);
  const { ids } = await start('--agent', 'qwen');
  say(hub, ids.session, 'hello');
  await hub.untilReady(ids.session, 1);
  const agentId = hub.sessions.get(ids.session).metadata.deltaSessionId;
  const fork = (params) =>
    hub.call(ids.machine, 'forkSession', {
      sessionId: ids.session,
      resumeSessionId: agentId,
      seq: 9,
      directory: dir,
      agent: 'delta',
      ...params,
    });
  const same = await fork({});
  const other = await fork({ sessionType: 'worktree', worktreeName: 'other-way' });
  for (const [{ success, error, sessionId }, root] of [
    [same, dir],
    [other, `${dir}-worktrees/other-way`],
  ]) {
    assert.equal(success, true, error);
    const forked = hub.sessions.get(sessionId);
    await hub.waitUntil(
      () => hub.transcript(sessionId).some((line) => line.startsWith('This is a fork. Qwen Code does not remember')),
      'the notice',
    );
    assert.equal(hub.transcript(sessionId)[0], 'hello');
    assert.equal(path.basename(forked.metadata.path), path.basename(root));
  }
  for (const params of [{ seq: -1 }, { seq: 'x' }, { seq: 1.5 }, { seq: undefined }, { sessionId: '../x' }, { sessionId: undefined }]) {
    const { success, error } = await fork(params);
    assert.equal(success, false);
    assert.match(error, /must be the (number of a message|id of the session to fork)/);
  }
  assert.match((await fork({ sessionId: 'unknown' })).error, /404/);
});

test('a CLI with the IPC channel of a process manager does not run as the session of a runner', async (t) => {
  const { hub, startWithIpc } = await setUpProcess(t, 'qwen');
  const { ids, child, exit } = await startWithIpc('--agent', 'qwen');
  const { startedBy, startedFromRunner } = hub.sessions.get(ids.session).metadata;
  assert.deepEqual([startedBy, startedFromRunner], ['terminal', false]);
  child.kill('SIGTERM');
  assert.deepEqual(await exit, [0, null]);
});

test('a CLI without a token pairs, and after it was killed it continues its session without pairing', async (t) => {
  const { hub, startUnpaired } = await setUpProcess(t, 'qwen');
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
  // A service manager does not start the program again after this exit code.
  assert.deepEqual(await second.exit, [77, null]);
  assert.match(second.collected.err, /This device was removed from the hub\. To connect it again, start this program at a terminal\.\n$/);
});

test('a CLI whose token or request for access is refused, or whose arguments are invalid, ends with an exit code of its own', async (t) => {
  const { hub, run, runUnpaired } = await setUpProcess(t, 'qwen');
  const denied = runUnpaired({}, '--agent', 'qwen');
  hub.decide((await hub.untilAccessRequested()).code, 'deny');
  assert.deepEqual(await denied.exit, [77, null]);
  const wrong = { CLI_API_TOKEN: 'wrong:tests' };
  assert.deepEqual(await runUnpaired(wrong, '--agent', 'qwen').exit, [77, null]);
  assert.deepEqual(await run('--agent', 'missing').exit, [2, null]);
  const forLaunchd = { ...wrong, SESSION_GATEWAY_REFUSED_EXIT_CODE: '0' };
  for (const agent of ['qwen', 'missing']) assert.deepEqual(await runUnpaired(forLaunchd, '--agent', agent).exit, [0, null], agent);
});

test('a CLI at a terminal whose device is revoked pairs again and continues its session', { skip: !hasPseudoTerminal }, async (t) => {
  const { hub, startAtTerminal } = await setUpProcess(t, 'qwen');
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
  const { hub, dir } = await setUpProcess(t);
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

const IMPORTABLE = (dir) => ({
  initialize: { agentCapabilities: { loadSession: true, sessionCapabilities: { resume: {}, list: {} } } },
  sessions: [
    [
      { sessionId: 'new', cwd: dir, title: 'The new one', updatedAt: '2026-11-26T10:00:00Z' },
      { sessionId: 'old', cwd: dir, title: 'The \x1b[31mold one', updatedAt: '2026-11-25T10:00:00Z' },
    ],
  ],
  history: { turns: 2 },
});

test('import asks at the terminal for a session, and serves it with its history', { skip: !hasPseudoTerminal }, async (t) => {
  const { hub, dir, scriptHome, setScript, runAsTerminal } = await setUpProcess(t, 'qwen');
  setScript(IMPORTABLE(dir));
  writeFileSync(path.join(scriptHome, 'old.session'), '{}');
  const terminal = runAsTerminal('import');
  await eventually(() => terminal.shown().includes('Import which one? [1-2]'), 'the question');
  assert.match(terminal.shown(), /1 {2}2026-11-26 10:00 {2}The new one {2}\(.*\)\r?\n {2}2 {2}2026-11-25 10:00 {2}The {2}\[31mold one/);
  terminal.child.stdin.write('2\n');
  const [session] = await hub.waitUntil(() => hub.sessions.size > 0 && [...hub.sessions.values()], 'the session');
  await hub.waitUntil(() => session.messages.length === 4 && session.metadata.deltaSessionId === 'old', 'the history');
});

test('import lets the process that serves the machine import the session', async (t) => {
  const { hub, dir, scriptHome, setScript, start, run } = await setUpProcess(t, 'qwen');
  setScript(IMPORTABLE(dir));
  writeFileSync(path.join(scriptHome, 'old.session'), '{}');
  const { ids } = await start();
  const { exit, collected } = run('import', 'old');
  assert.deepEqual(await exit, [0, null], collected.err);
  const [, imported] = [...hub.sessions.keys()];
  assert.notEqual(imported, ids.session);
  assert.equal(collected.err, `Imported: ${hub.url}/sessions/${imported}\n`);
  await hub.waitUntil(() => hub.sessions.get(imported).messages.length === 4, 'the history');
  const again = run('import', 'old');
  assert.deepEqual(await again.exit, [0, null]);
  assert.equal(again.collected.err, collected.err);
});

test('import at the terminal marks the sessions in the hub, and lists more sessions after Enter', {
  skip: !hasPseudoTerminal,
}, async (t) => {
  const { hub, dir, scriptHome, setScript, run, runAsTerminal } = await setUpProcess(t, 'qwen');
  const others = Array.from({ length: 50 }, (_, index) => ({ sessionId: `other-${index}`, cwd: dir, title: `Other ${index}` }));
  const listed = { sessionId: 'listed', cwd: dir, title: 'In both' };
  setScript({ ...IMPORTABLE(dir), sessions: [[listed, ...others.slice(1)], [others[0]]] });
  writeFileSync(path.join(scriptHome, 'listed.session'), '{}');
  const serving = run('import', 'listed');
  const [sid] = await hub.waitUntil(() => hub.sessions.size > 0 && [...hub.sessions.keys()], 'the session');
  const isImported = () => hub.sessions.get(sid).messages.length === 4 && hub.sessions.get(sid).metadata.deltaSessionId === 'listed';
  await hub.waitUntil(isImported, 'the history');
  const terminal = runAsTerminal('import');
  await eventually(() => terminal.shown().includes('Import which one? [1-50, or Enter for more]'), 'the question');
  assert.match(terminal.shown(), /1 +In both {2}\(.*\) {2}\[in the hub\]\r?\n {2}2 +Other 1 {2}\(.*\)\r?\n/);
  assert.doesNotMatch(terminal.shown(), /Other 0/);
  terminal.child.stdin.write('\n');
  await eventually(() => terminal.shown().includes('Import which one? [1-51]'), 'the second question');
  assert.match(terminal.shown(), /51 +Other 0 {2}\(/);
  terminal.child.stdin.write('1\n');
  await terminal.exit;
  assert.match(terminal.shown(), new RegExp(`Imported: .*/sessions/${sid}`));
  assert.equal(hub.sessions.size, 1);
  assert.equal(serving.child.exitCode, null, 'the first process still serves the session');
});

test('import takes the id of a session of an agent that does not list its sessions', async (t) => {
  const { hub, scriptHome, setScript, run } = await setUpProcess(t, 'gemini');
  setScript({ initialize: { agentCapabilities: { loadSession: true } }, history: { turns: 2 } });
  const refused = run('import', '--agent', 'gemini');
  assert.equal((await refused.exit)[0], 1);
  assert.match(refused.collected.err, /Gemini CLI does not list its sessions\. .*session-gateway-agent import ID/);
  assert.equal(hub.sessions.size, 0);
  writeFileSync(path.join(scriptHome, 'old.session'), '{}');
  run('import', '--agent', 'gemini', 'old');
  const [session] = await hub.waitUntil(() => hub.sessions.size > 0 && [...hub.sessions.values()], 'the session');
  const untilImported = () => session.messages.length === 4 && session.metadata.deltaSessionId === 'old';
  await hub.waitUntil(untilImported, 'the history');
});

test('--service prints the definition of a service, installs and removes it', { skip: process.platform !== 'linux' }, async (t) => {
  const { dir, run } = await setUpProcess(t, 'claude-agent-acp');
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
  const { hub, start } = await setUpProcess(t, 'opencode');
  const { ids } = await start('--agent', 'opencode');
  const titles = [];
  const title = () => hub.sessions.get(ids.session).metadata.summary?.text;
  hub.on('change', () => titles.push(title()));
  say(hub, ids.session, 'hello');
  await hub.waitUntil(() => title() === 'Say hello', 'the title');
  assert.deepEqual([...new Set(titles)], [undefined, '[{"say":"hello"}]', 'Say hello']);
});

test('no agent receives the access token, in its environment or its arguments', { skip: process.platform !== 'linux' }, async (t) => {
  const { hub, dir, start } = await setUpProcess(t, 'opencode', 'qwen');
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
  const { hub, dir, start } = await setUpProcess(t, 'opencode');
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
