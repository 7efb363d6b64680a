/** A session that is continued in the agent's own terminal program, and comes back to the hub. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { isRunning } from 'session-gateway-cli-kit/system-processes';
import { FakeHub, TOKEN } from '../../packages/cli-kit/test/support/fake-hub.mjs';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { eventually } from '../../packages/cli-kit/test/support/wait.mjs';
import { runCli, startCli } from './support/cli-process.mjs';
import { writeScriptedAgent } from './support/setup.mjs';

const SCRIPT = { initialize: { agentCapabilities: { loadSession: true, sessionCapabilities: { resume: {}, list: {} } } }, history: {} };

/**
 * A terminal program: adds the lines that are typed to the agent's conversation, until `exit`. Without a terminal, it continues as long as
 * the file `stays` exists.
 */
const TERMINAL_PROGRAM = `#!/bin/sh
echo "$$ $PWD $*" >> "$SCRIPT_HOME/started"
while read -r line; do
  [ "$line" = exit ] && exit 3
  echo "$line" >> "$SCRIPT_HOME/conversation"
  echo "noted $line"
done
while [ -e "$SCRIPT_HOME/stays" ]; do sleep 0.2; done
`;

async function setUp(t, script = SCRIPT) {
  // Before the other steps, which wait for the ends of the processes.
  t.after(() => programs().forEach(([pid]) => isRunning(Number(pid)) && process.kill(Number(pid), 'SIGKILL')));
  const hub = await FakeHub.start();
  t.after(() => hub.stop());
  const base = tempDir(t);
  const [dir, bin, scriptHome] = ['served', 'bin', 'script'].map((name) => path.join(base, name));
  for (const folder of [dir, bin, scriptHome]) mkdirSync(folder);
  writeScriptedAgent(bin, 'claude-agent-acp');
  writeFileSync(path.join(bin, 'claude'), TERMINAL_PROGRAM, { mode: 0o755 });
  const env = {
    PATH: `${bin}:/usr/bin:/bin`,
    HOME: base,
    CLI_API_TOKEN: TOKEN,
    SESSION_GATEWAY_HOME: path.join(base, 'home'),
    SCRIPT: JSON.stringify(script),
    SCRIPT_HOME: scriptHome,
  };
  const start = () => startCli(t, hub, ['--dir', dir, '--hub', hub.url, '--trust'], env);
  const startedFile = path.join(scriptHome, 'started');
  /** The terminal programs that were started. The shell creates the file before it writes a line. */
  const programs = () =>
    existsSync(startedFile)
      ? readFileSync(startedFile, 'utf8')
          .split('\n')
          .slice(0, -1)
          .map((line) => line.split(' '))
      : [];
  const attach = (...args) => runCli(t, ['attach', ...args, '--hub', hub.url], env);
  const untilProgram = (count, terminal) =>
    eventually(() => programs().length === count, 'the terminal program').catch((error) => {
      throw new Error(`${error.message} ${terminal.collected.err}`);
    });
  const calls = (method) =>
    readFileSync(path.join(scriptHome, 'calls.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
      .filter((call) => call.method === method);
  const messagesOf = (sid) => hub.sessions.get(sid).messages.map(({ content }) => shown(content));
  const say = (sid, text) => hub.postMessage(sid, JSON.stringify([{ say: text }]));
  const stay = () => writeFileSync(path.join(scriptHome, 'stays'), '');
  /** Starts the bridge, and sends a first message, without which a session cannot be continued. */
  const startTalk = async () => {
    const started = await start();
    say(started.ids.session, 'One.');
    await hub.untilReady(started.ids.session, 1);
    return { ...started, sid: started.ids.session };
  };
  return { hub, dir, start, startTalk, attach, programs, untilProgram, calls, messagesOf, say, stay };
}

const typed = ({ child }, line) => child.stdin.write(`${line}\n`);

function shown({ role, content, meta }) {
  if (role === 'user') return `${meta.sentFrom}: ${content.text}`;
  if (content.type === 'event') return `(${content.data.type})`;
  if (content.data.type === 'queue') return `(${content.data.queued[0].change})`;
  return content.data.message.content[0].text;
}

const prompt = (text) => JSON.stringify([{ say: text }]);

test('what was said in the terminal is stored once, and messages sent meanwhile wait', async (t) => {
  const { hub, dir, start, attach, programs, untilProgram, calls, messagesOf, say } = await setUp(t);
  const { ids } = await start();
  const sid = ids.session;
  const stored = hub.sessions.get(sid);
  assert.equal(stored.metadata.terminalCommand, undefined, 'a session without a message cannot be continued');
  say(sid, 'One.');
  await hub.untilReady(sid, 1);
  const agentId = stored.metadata.alphaSessionId;
  await hub.waitUntil(() => stored.metadata.terminalCommand === `cd ${dir} && claude --resume ${agentId}`, 'the command');
  for (const round of [1, 2]) {
    const before = messagesOf(sid);
    const terminal = attach(sid);
    await untilProgram(round, terminal);
    assert.deepEqual(programs().at(-1).slice(1), [dir, '--resume', agentId]);
    await hub.waitUntil(() => stored.mode === 'local' && stored.metadata.terminalProgram === 'claude', 'the terminal to be in control');
    assert.equal(stored.agentState.controlledByUser, true);
    assert.equal(stored.metadata.lifecycleState, 'paused');
    assert.match((await hub.call(sid, 'switch', { to: 'remote' })).error, /in use in a terminal on .*End the program there\./);
    assert.match((await hub.call(sid, 'set-session-config', { permissionMode: 'plan' })).error, /in use in a terminal/);
    const { length } = calls('session/prompt');
    say(sid, `Waiting ${round}.`);
    await hub.waitUntil(() => stored.agentState.queuedMessages?.length === 1, 'the message to wait');
    typed(terminal, `Typed ${round}`);
    typed(terminal, 'exit');
    assert.deepEqual(await terminal.exit, [3, null], terminal.collected.err);
    assert.match(terminal.collected.err, /back at the hub/);
    await hub.untilReady(sid, round + 1);
    assert.equal(calls('session/prompt').length, length + 1);
    assert.equal(stored.mode, 'remote');
    assert.equal(stored.metadata.terminalProgram, undefined);
    assert.deepEqual(messagesOf(sid).slice(before.length), [
      `web: ${prompt(`Waiting ${round}.`)}`,
      `cli: Typed ${round}`,
      `Answer to: Typed ${round}`,
      // Clients show the message here.
      '(started)',
      `Waiting ${round}.`,
      '(ready)',
    ]);
  }
});

test('attach without an id takes the session of the directory, and waits for the end of a turn', async (t) => {
  const { hub, dir, start, attach, programs, untilProgram, messagesOf } = await setUp(t);
  const { ids } = await start();
  hub.postMessage(ids.session, JSON.stringify([{ say: 'Begun.' }, { wait: 60_000 }]));
  await hub.waitUntil(() => hub.sessions.get(ids.session).thinking, 'the turn');
  const terminal = attach('--dir', dir);
  await eventually(() => terminal.collected.err.includes('Claude Code is working. Waiting for the end of its turn'), 'the notice');
  const other = attach(ids.session);
  assert.deepEqual(await other.exit, [1, null]);
  assert.match(other.collected.err, /already in use in a terminal/);
  assert.equal(programs().length, 0);
  await hub.abort(ids.session);
  await untilProgram(1, terminal);
  typed(terminal, 'exit');
  assert.deepEqual(await terminal.exit, [3, null]);
  assert.ok(messagesOf(ids.session).includes('Aborted.'));
});

test('a terminal that is closed while it waits gives control back to the web', async (t) => {
  const { hub, start, attach } = await setUp(t);
  const { ids } = await start();
  hub.postMessage(ids.session, JSON.stringify([{ wait: 60_000 }]));
  const stored = hub.sessions.get(ids.session);
  await hub.waitUntil(() => stored.thinking, 'the turn');
  const terminal = attach(ids.session);
  await hub.waitUntil(() => stored.mode === 'local', 'the terminal to be in control');
  terminal.child.kill('SIGKILL');
  await hub.waitUntil(() => stored.mode === 'remote', 'the web to be in control');
  await hub.abort(ids.session);
  await hub.untilReady(ids.session, 1);
});

test('a session without messages, an unknown session and a missing program are refused with a sentence', async (t) => {
  const { hub, start, attach } = await setUp(t);
  const { ids } = await start();
  const errorOf = async (...args) => {
    const { exit, collected } = attach(...args);
    await exit;
    return collected.err;
  };
  assert.match(await errorOf(ids.session), /The session has no messages yet\. Send one first\./);
  assert.equal(hub.sessions.get(ids.session).mode, 'remote');
  assert.match(await errorOf('unknown'), /This computer has no session unknown\./);
  assert.match(await errorOf('a', 'b'), /Unexpected argument 'b'/);
});

test('a session that no process serves is served while the program runs', async (t) => {
  const { hub, startTalk, attach, untilProgram, messagesOf } = await setUp(t);
  const first = await startTalk();
  const { sid } = first;
  first.child.kill('SIGTERM');
  await first.exit;
  const terminal = attach(sid);
  await untilProgram(1, terminal);
  await hub.waitUntil(() => hub.sessions.get(sid).mode === 'local', 'the terminal to be in control');
  typed(terminal, 'Typed');
  typed(terminal, 'exit');
  assert.deepEqual(await terminal.exit, [3, null], terminal.collected.err);
  assert.deepEqual(messagesOf(sid).slice(-2), ['cli: Typed', 'Answer to: Typed']);
  assert.equal(hub.sessions.get(sid).active, false);
});

test('after the bridge was killed, the next one waits for the program, and stores what was said once', async (t) => {
  const { hub, start, startTalk, attach, untilProgram, calls, messagesOf, say } = await setUp(t);
  const first = await startTalk();
  const { sid } = first;
  const terminal = attach(sid);
  await untilProgram(1, terminal);
  typed(terminal, 'Before');
  first.child.kill('SIGKILL');
  await first.exit;
  const starts = calls('initialize').length;
  const second = await start();
  const stored = hub.sessions.get(sid);
  await hub.waitUntil(() => stored.mode === 'local' && stored.metadata.terminalProgram === 'claude', 'the terminal to be in control');
  say(sid, 'Two.');
  await hub.waitUntil(() => stored.agentState.queuedMessages?.length === 1, 'the message to wait');
  assert.equal(calls('initialize').length, starts, 'the agent must not run beside the program');
  typed(terminal, 'After');
  typed(terminal, 'exit');
  assert.deepEqual(await terminal.exit, [3, null]);
  await hub.untilReady(sid, 2);
  const added = ['cli: Before', 'Answer to: Before', 'cli: After', 'Answer to: After'];
  const all = messagesOf(sid);
  assert.deepEqual(
    all.filter((line) => added.includes(line)),
    added,
  );
  // The acknowledgements of the stored messages are lost, as if the bridge were killed before the end.
  second.child.kill('SIGKILL');
  await second.exit;
  await start();
  say(sid, 'Three.');
  await hub.untilReady(sid, 3);
  assert.equal(messagesOf(sid).length, all.length + 3);
});

test('after attach was killed, the bridge waits for the program, and stores what was said', async (t) => {
  const { hub, startTalk, attach, programs, untilProgram, messagesOf, say, stay } = await setUp(t);
  const { sid } = await startTalk();
  const terminal = attach(sid);
  await untilProgram(1, terminal);
  typed(terminal, 'Typed');
  await eventually(() => programs().length === 1, 'the program');
  await new Promise((resolve) => terminal.child.stdout.once('data', resolve));
  stay();
  terminal.child.kill('SIGKILL');
  await once(terminal.child, 'exit');
  const [[pid]] = programs();
  const stored = hub.sessions.get(sid);
  say(sid, 'Two.');
  await hub.waitUntil(() => stored.agentState.queuedMessages?.length === 1, 'the message to wait');
  assert.equal(stored.mode, 'local');
  assert.ok(isRunning(Number(pid)));
  process.kill(Number(pid), 'SIGKILL');
  await hub.untilReady(sid, 2);
  const said = ['cli: Typed', 'Answer to: Typed', '(started)', 'Two.', '(ready)'];
  assert.deepEqual(messagesOf(sid).slice(-6), [`web: ${prompt('Two.')}`, ...said]);
});

test('a bridge that is killed while it stores what was said stores the rest once', async (t) => {
  const { hub, start, startTalk, attach, untilProgram, messagesOf, say } = await setUp(t);
  const first = await startTalk();
  const { sid } = first;
  const terminal = attach(sid);
  await untilProgram(1, terminal);
  for (const line of ['a', 'b', 'c']) typed(terminal, line);
  hub.dropAck = ({ content }) => {
    if (shown(content) !== 'Answer to: b') return false;
    first.child.kill('SIGKILL');
    return true;
  };
  typed(terminal, 'exit');
  await first.exit;
  hub.dropAck = undefined;
  await terminal.exit;
  assert.match(terminal.collected.err, /What was said here is stored when the session is resumed/);
  await start();
  say(sid, 'Two.');
  await hub.untilReady(sid, 2);
  const lines = messagesOf(sid).filter((line) => /^(cli|Answer)/.test(line));
  assert.deepEqual(
    lines,
    ['a', 'b', 'c'].flatMap((line) => [`cli: ${line}`, `Answer to: ${line}`]),
  );
});
