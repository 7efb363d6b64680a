/** The question whether the user trusts a folder, at the terminal and from the web. */

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { eventually } from '../../packages/cli-kit/test/support/wait.mjs';
import { hasPseudoTerminal } from './support/cli-process.mjs';
import { SCRIPT, setUpProcess, setUpUntrusted } from './support/process-setup.mjs';

const QUESTION = 'Trust this folder? [y/N]';
const withTerminal = { skip: hasPseudoTerminal ? false : 'needs python3 for a pseudo-terminal' };

for (const words of [[], ['import', 'old'], ['--service', 'install']]) {
  test(`${words[0] ?? 'a start'} without a terminal refuses a folder that is not trusted, and says what to do`, async (t) => {
    const { hub, dir, run } = await setUpUntrusted(t, 'qwen');
    const { exit, collected } = run(...words);
    assert.deepEqual(await exit, [2, null]);
    assert.equal(
      collected.err,
      `session-gateway-agent: ${dir} is not trusted on this machine. Agents run this folder's hooks and MCP servers as soon as a session starts. To trust it, add --trust, or start this program in it once at a terminal.\n`,
    );
    assert.equal(hub.sessions.size, 0);
  });
}

test('printing a service asks for no trust and gives none', async (t) => {
  const { run } = await setUpUntrusted(t, 'qwen');
  for (const words of [['--service'], ['--trust', '--service', 'print']]) {
    const { exit, child } = run(...words);
    let unit = '';
    child.stdout.on('data', (text) => (unit += text));
    assert.deepEqual(await exit, [0, null]);
    assert.equal(unit.includes('"--trust"'), words.includes('--trust'), unit);
  }
  assert.deepEqual(await run().exit, [2, null]);
});

test('the terminal asks once for each folder', withTerminal, async (t) => {
  const { hub, dir, runAsTerminal, start } = await setUpUntrusted(t, 'qwen');
  const answer = async (line) => {
    const terminal = runAsTerminal();
    await eventually(() => terminal.shown().includes(QUESTION), 'the question');
    terminal.child.stdin.write(line);
    return terminal;
  };
  for (const line of ['n\n', '\n', '\u0004']) {
    const refused = await answer(line);
    await refused.exit;
    assert.match(refused.shown(), /Nothing was started, because the folder is not trusted\./);
  }
  assert.equal(hub.sessions.size, 0);
  const trusted = await answer('y\n');
  assert.ok(trusted.shown().includes(dir));
  await eventually(() => trusted.shown().includes('\nmachine '), 'the start');
  trusted.child.stdin.write('\u0003');
  await trusted.exit;
  await start('--new');
  assert.equal(hub.sessions.size, 2);
});

test('a session in another folder of the machine waits for the trust of the web client, and is then not asked again', async (t) => {
  const { hub, dir, start } = await setUpProcess(t, 'qwen');
  const { ids } = await start();
  const directory = path.join(dir, 'fresh');
  mkdirSync(directory);
  const spawn = (params) => hub.call(ids.machine, 'spawnSession', { directory, ...params });
  const { success, code } = await spawn();
  assert.deepEqual([success, code, hub.sessions.size], [false, 'untrusted_directory', 1]);
  for (const params of [{ trust: true }, {}]) {
    const { success: isStarted, error } = await spawn(params);
    assert.ok(isStarted, error);
  }
  assert.equal(hub.sessions.size, 3);
});

test('an imported session is started only in a folder that is trusted', async (t) => {
  const { hub, dir, scriptHome, setScript, start, run } = await setUpProcess(t, 'qwen');
  const directory = path.join(dir, 'fresh');
  mkdirSync(directory);
  const capabilities = { loadSession: true, sessionCapabilities: { list: {} } };
  setScript({ ...SCRIPT, initialize: { agentCapabilities: capabilities }, sessions: [[{ sessionId: 'old', cwd: directory }]] });
  writeFileSync(path.join(scriptHome, 'old.session'), '{}');
  const { ids } = await start();
  const { code } = await hub.call(ids.machine, 'importAgentSession', { agent: 'qwen', id: 'old' });
  assert.equal(code, 'untrusted_directory');
  const imported = await hub.call(ids.machine, 'importAgentSession', { agent: 'qwen', id: 'old', trust: true });
  assert.equal(imported.success, true, imported.error);
  const again = run('import', 'old');
  again.child.stdout.resume();
  assert.deepEqual(await again.exit, [0, null], again.collected.err);
});
