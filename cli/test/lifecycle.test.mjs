/** The start, the end and the restart of the agent's process. */

import assert from 'node:assert/strict';
import { cpSync, existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { isRunning } from 'session-gateway-cli-kit/system-processes';
import { eventually } from '../../packages/cli-kit/test/support/wait.mjs';
import { TOKEN } from '../../packages/cli-kit/test/support/fake-hub.mjs';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { SilenceTimer } from '../src/silence.mjs';
import { GeminiRecords } from './support/gemini-records.mjs';
import { agentOf, askToRun, putScriptedAgent, setUp } from './support/setup.mjs';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';

const RESUMES = { initialize: { agentCapabilities: { loadSession: true, sessionCapabilities: { resume: {}, close: {} } } } };

test('the agent starts in the directory, without the token of the hub in its environment', async (t) => {
  process.env.COPY_OF_TOKEN = `Bearer ${TOKEN}`;
  t.after(() => delete process.env.COPY_OF_TOKEN);
  process.env.CLI_API_TOKEN = TOKEN;
  t.after(() => delete process.env.CLI_API_TOKEN);
  const { hub, dir, calls, prompt, start } = await setUp(t);
  const { session } = await start();
  assert.equal(calls('session/new')[0].cwd, dir);
  prompt(session.id, [{ env: true }]);
  await hub.untilReady(session.id, 1);
  const environment = JSON.parse(hub.transcript(session.id)[0]);
  assert.equal(environment.SCRIPT_HOME, process.env.SCRIPT_HOME);
  assert.ok(!JSON.stringify(environment).includes(TOKEN));
  assert.deepEqual(calls('initialize')[0].clientCapabilities.fs, { readTextFile: false, writeTextFile: false });
});

test('a crash in a turn is described, and the next message resumes the session', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t, RESUMES);
  const { session } = await start();
  const [announce] = askToRun('a', 'ls');
  announce.update.status = 'in_progress';
  prompt(session.id, [announce, { crash: 'out of memory' }]);
  await hub.untilReady(session.id, 1);
  const lines = hub.transcript(session.id);
  assert.match(lines[1], /^! /);
  assert.match(lines[2], /^Error: node ended unexpectedly \(exit code 7\. out of memory\)\. .* is not sent again\./);
  prompt(session.id, [{ say: 'still here' }]);
  await hub.untilReady(session.id, 2);
  assert.ok(hub.transcript(session.id).includes('still here'));
  assert.equal(calls('session/resume')[0].sessionId, hub.sessions.get(session.id).metadata.alphaSessionId);
  assert.equal(calls('session/prompt').length, 2);
});

test('a restarted bridge resumes the session, closes open calls and does not repeat the prompt', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t, RESUMES);
  const first = await start();
  const [announce] = askToRun('a', 'ls');
  announce.update.status = 'in_progress';
  prompt(first.session.id, [announce, { wait: 60_000 }]);
  await hub.waitUntil(() => hub.transcript(first.session.id).includes('> ls'), 'the call');
  await first.stop();
  const { session } = await start();
  assert.equal(session.id, first.session.id);
  await hub.untilReady(session.id, 1);
  assert.deepEqual(hub.transcript(session.id), [
    '> ls',
    '! The session was ended while this ran.',
    'The bridge to the agent was restarted during this turn. Its prompt is not sent again.',
    '(ready)',
  ]);
  assert.equal(calls('session/prompt').length, 1);
  assert.equal(calls('session/resume').length, 1);
});

test('after a turn that has ended, a killed bridge only repeats that it is ready', async (t) => {
  const { hub, home, prompt, start } = await setUp(t, RESUMES);
  const first = await start();
  // The acknowledgement of the last message is lost, as if the process were killed before the acknowledgement arrives.
  hub.dropAck = ({ content }) => content.content?.data?.type === 'ready';
  prompt(first.session.id, [{ say: 'finished' }]);
  await hub.untilReady(first.session.id, 1);
  const copy = `${home}-copy`;
  cpSync(home, copy, { recursive: true });
  t.after(() => rmSync(copy, { recursive: true }));
  hub.dropAck = undefined;
  await first.stop();
  const { session } = await start({ home: copy });
  prompt(session.id, [{ say: 'next' }]);
  await hub.untilReady(session.id, 2);
  assert.deepEqual(hub.transcript(session.id), ['finished', '(ready)', 'next', '(ready)']);
});

test('the replay of a loaded session gives only the title, commands, mode and usage', async (t) => {
  const content = { type: 'text', text: 'replayed' };
  const replayed = [
    { sessionUpdate: 'user_message_chunk', content },
    { sessionUpdate: 'agent_thought_chunk', content },
    { sessionUpdate: 'tool_call', toolCallId: 'a', title: 'ls', kind: 'execute', status: 'completed', rawInput: { command: 'ls' } },
    { sessionUpdate: 'plan', entries: [{ content: 'replayed', status: 'pending', priority: 'high' }] },
    { sessionUpdate: 'session_info_update', title: 'An earlier title' },
    { sessionUpdate: 'available_commands_update', availableCommands: [{ name: 'review', description: '' }] },
    { sessionUpdate: 'usage_update', used: 9, size: 90 },
    { sessionUpdate: 'current_mode_update', currentModeId: 'ask' },
  ];
  const modes = {
    currentModeId: 'ask',
    availableModes: [
      { id: 'ask', name: 'Ask' },
      { id: 'reader', name: 'Reader' },
    ],
  };
  const script = { initialize: { agentCapabilities: { loadSession: true } }, newSession: { modes }, replayed };
  const { hub, calls, prompt, start } = await setUp(t, script);
  const first = await start();
  await hub.waitUntil(() => hub.sessions.get(first.session.id).permissionMode === 'ask', 'the mode of the agent');
  await hub.call(first.session.id, 'set-session-config', { permissionMode: 'reader' });
  await first.stop();
  const { session } = await start();
  assert.equal(calls('session/load').length, 1);
  prompt(session.id, [{ say: 'new' }]);
  await hub.untilReady(session.id, 1);
  assert.deepEqual(hub.transcript(session.id), ['new', '(ready)']);
  const stored = hub.sessions.get(session.id);
  await hub.waitUntil(() => stored.metadata.summary && stored.metadata.usage, 'the state');
  assert.deepEqual([stored.permissionMode, calls('session/set_mode').map(({ modeId }) => modeId)], ['reader', ['reader', 'reader']]);
  assert.deepEqual(
    [stored.metadata.summary.text, stored.metadata.slashCommands, stored.metadata.usage],
    ['An earlier title', ['review'], { used: 9, size: 90 }],
  );
});

test('an agent that is killed in a turn cancels its requests, and resumes with the next message', async (t) => {
  const { hub, calls, prompt, untilRequest, start } = await setUp(t, RESUMES);
  const { session } = await start();
  const sid = session.id;
  prompt(sid, askToRun('a', 'ls'));
  await untilRequest(sid);
  process.kill(Number(agentOf(session).state.agentId.replace('scripted-', '')), 'SIGKILL');
  await hub.untilReady(sid, 1);
  const { requests, completedRequests } = hub.sessions.get(sid).agentState;
  assert.deepEqual([requests, completedRequests.a.status], [{}, 'canceled']);
  const lines = hub.transcript(sid);
  assert.deepEqual([lines[0], lines.length], ['> ls', 4]);
  assert.match(lines[1], /^! /);
  assert.match(lines[2], /^Error: node ended unexpectedly \(ended by SIGKILL\b.*\)\. .* The next message starts node again\.$/);
  prompt(sid, [{ say: 'back' }]);
  await hub.untilReady(sid, 2);
  assert.equal(hub.transcript(sid).at(-2), 'back');
  assert.equal(calls('session/resume').length, 1);
});

test('an agent that is killed between two turns is started again without a notice', async (t) => {
  const { hub, log, prompt, start } = await setUp(t, RESUMES);
  const { session } = await start();
  process.kill(Number(agentOf(session).state.agentId.replace('scripted-', '')), 'SIGKILL');
  await eventually(() => log.warnings.some((line) => /ended \(ended by SIGKILL\)/.test(line)), 'its end');
  prompt(session.id, [{ say: 'back' }]);
  await hub.untilReady(session.id, 1);
  assert.deepEqual(hub.transcript(session.id), ['back', '(ready)']);
});

test('an agent that cannot resume starts a new session after its crash, and the conversation reports the loss', async (t) => {
  const { hub, prompt, start } = await setUp(t);
  const { session } = await start();
  prompt(session.id, [{ crash: 'out of memory' }]);
  await hub.untilReady(session.id, 1);
  prompt(session.id, [{ say: 'here again' }]);
  await hub.untilReady(session.id, 2);
  const [notice, ...rest] = hub.transcript(session.id).slice(-3);
  assert.match(notice, /^node cannot resume its session scripted-\d+: it cannot resume sessions\. It has started a new session, /);
  assert.deepEqual(rest, ['here again', '(ready)']);
});

test('a session of Gemini CLI is not loaded in the minute of the clock in which it was started', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t, { initialize: { agentCapabilities: { loadSession: true } } });
  putScriptedAgent(t, 'gemini');
  const startGemini = () => start({ command: undefined, agent: 'gemini', flavor: 'delta', agentStartTimeoutMs: 500 });
  t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(2020, 1, 1, 12, 0, 59) });
  const first = await startGemini();
  prompt(first.session.id, [{ say: 'first' }]);
  await hub.untilReady(first.session.id, 1);
  await first.stop();
  t.mock.timers.setTime(Date.UTC(2020, 1, 1, 12, 0, 0));
  const second = await startGemini();
  prompt(second.session.id, [{ say: 'waits' }]);
  await hub.waitUntil(() => hub.sessions.get(second.session.id).thinking, 'the turn');
  assert.deepEqual(calls('session/load'), []);
  await second.stop();
  t.mock.timers.reset();
  await startGemini();
  await hub.untilReady(second.session.id, 2);
  assert.equal(calls('session/load').length, 1);
  const [notice, ...rest] = hub.transcript(second.session.id).slice(2);
  assert.equal(notice, 'Gemini CLI resumes this session in 60 s: it would lose a session that began in this minute.');
  assert.deepEqual(rest, ['waits', '(ready)']);
});

test('a session of Gemini CLI is not imported in the minute of the clock in which it was started', async (t) => {
  const history = { updates: [{ sessionUpdate: 'user_message_chunk', content: { type: 'text', text: 'Hello' } }] };
  const { hub, calls, scriptHome, start } = await setUp(t, { history, initialize: { agentCapabilities: { loadSession: true } } });
  process.env.GEMINI_CLI_HOME = tempDir(t);
  t.after(() => delete process.env.GEMINI_CLI_HOME);
  putScriptedAgent(t, 'gemini');
  const { folder } = new GeminiRecords(process.env.GEMINI_CLI_HOME);
  writeFileSync(path.join(folder, 'session-2020-02-01T12-00-12345678.jsonl'), '{"type":"user"}\n');
  writeFileSync(path.join(scriptHome, '12345678-0.session'), '{}');
  const options = { command: undefined, agent: 'gemini', flavor: 'delta', importSession: '12345678-0' };
  t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(2020, 1, 1, 12, 0, 30) });
  const first = await start({ ...options, agentStartTimeoutMs: 50 });
  const sid = first.session.id;
  await hub.waitUntil(() => hub.transcript(sid).length > 0, 'the notice');
  assert.match(hub.transcript(sid)[0], /^Gemini CLI resumes this session in 30 s: /);
  assert.deepEqual(calls('session/load'), []);
  await first.stop();
  t.mock.timers.reset();
  await start(options);
  await hub.waitUntil(() => hub.sessions.get(sid).messages.length === 2, 'the history');
  assert.equal(calls('session/load').length, 1);
});

test('Gemini CLI keeps its session over restarts in quick succession', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t, { initialize: { agentCapabilities: { loadSession: true } } });
  process.env.GEMINI_CLI_HOME = tempDir(t);
  t.after(() => delete process.env.GEMINI_CLI_HOME);
  putScriptedAgent(t, 'gemini');
  const startGemini = () => start({ command: undefined, agent: 'gemini', flavor: 'delta' });
  t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(2020, 1, 1, 12, 0, 59) });
  const first = await startGemini();
  const sid = first.session.id;
  prompt(sid, [{ say: 'hello' }]);
  await hub.untilReady(sid, 1);
  await first.stop();
  t.mock.timers.reset();
  for (let i = 0; i < 3; i += 1) await (await startGemini()).stop();
  await startGemini();
  prompt(sid, [{ say: 'still here' }]);
  await hub.untilReady(sid, 2);
  assert.deepEqual(hub.transcript(sid), ['hello', '(ready)', 'still here', '(ready)']);
  assert.deepEqual([calls('session/new').length, calls('session/load').length], [1, 4]);
});

test('an agent that no longer knows its session starts a new session; the loss is reported and the history is kept', async (t) => {
  const { hub, calls, prompt, scriptHome, start } = await setUp(t, { initialize: { agentCapabilities: { loadSession: true } } });
  const first = await start();
  prompt(first.session.id, [{ say: 'before' }]);
  await hub.untilReady(first.session.id, 1);
  const lostId = agentOf(first.session).state.agentId;
  await first.stop();
  for (const name of readdirSync(scriptHome)) if (name.endsWith('.session')) rmSync(path.join(scriptHome, name));
  const second = await start({ startedByRunner: true });
  prompt(second.session.id, [{ say: 'after' }]);
  await hub.untilReady(second.session.id, 2);
  const notice = `node cannot resume its session ${lostId}: Session not found: ${lostId}. It has started a new session, and does not remember the conversation above.`;
  assert.deepEqual(hub.transcript(second.session.id), ['before', '(ready)', notice, 'after', '(ready)']);
  const newId = agentOf(second.session).state.agentId;
  assert.notEqual(newId, lostId);
  await hub.waitUntil(() => hub.sessions.get(second.session.id).metadata.alphaSessionId === newId, 'the new id');
  await second.stop();
  await start();
  assert.deepEqual(pluck(calls('session/load'), 'sessionId'), [lostId, newId]);
  assert.equal(calls('session/new').length, 2);
});

test('--new starts a new session of the directory, and later starts continue it', async (t) => {
  const { hub, calls, start } = await setUp(t, RESUMES);
  const ids = [];
  for (const isNew of [false, true, false, true]) {
    const app = await start({ isNew });
    ids.push(app.session.id);
    await app.stop();
  }
  const [first, second, , third] = ids;
  assert.deepEqual(ids, [first, second, second, third]);
  assert.equal(hub.sessions.size, 3);
  assert.deepEqual([calls('session/new').length, calls('session/resume').length], [3, 1]);
});

test('a session that the agent forgot before its first prompt is replaced without a notice', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t);
  const first = await start();
  await first.stop();
  const second = await start();
  prompt(second.session.id, [{ say: 'hello' }]);
  await hub.untilReady(second.session.id, 1);
  assert.deepEqual(hub.transcript(second.session.id), ['hello', '(ready)']);
  assert.equal(calls('session/new').length, 2);
});

test('when a session ends, the bridge closes it at the agent and ends the process group', async (t) => {
  const { calls, start } = await setUp(t, RESUMES);
  const app = await start();
  const pid = Number(agentOf(app.session).state.agentId.replace('scripted-', ''));
  assert.ok(isRunning(pid));
  await app.stop();
  assert.equal(calls('session/close').length, 1);
  await eventually(() => !isRunning(pid), 'the agent to end');
});

test('an agent that is not signed in explains the sign-in, and starts with a later message', async (t) => {
  const authMethods = [{ id: 'login', name: 'Log in', description: 'In a terminal' }];
  const { hub, log, prompt, setScript, start } = await setUp(t, { signedOut: true, initialize: { authMethods } });
  const { session } = await start();
  const [line] = await hub.waitUntil(() => hub.transcript(session.id).length > 0 && hub.transcript(session.id));
  assert.match(line, /^node is not signed in: Authentication required\n- Log in: In a terminal\nThen send a message\.$/);
  assert.match(log.warnings[0], /is not signed in/);
  setScript({});
  await assert.rejects(
    start({ startedByRunner: true, tag: 'other', command: ['false'] }),
    /^Error: false did not start: exit code 1, without a reason in its output$/,
  );
  const command = ['sh', '-c', 'printf "Not complete.\\n\\nInstall it again.\\n" >&2; exit 3'];
  await assert.rejects(
    start({ startedByRunner: true, tag: 'third', command }),
    /^Error: sh did not start: exit code 3:\nNot complete\.\nInstall it again\.$/,
  );
  const { environment } = agentOf(session);
  environment.SCRIPT = '{}';
  prompt(session.id, [{ say: 'signed in' }]);
  await hub.untilReady(session.id, 1);
  assert.ok(hub.transcript(session.id).includes('signed in'));
});

test('an agent that npx cannot download is named with the reason, without the rest of the output of npm', async (t) => {
  const { start } = await setUp(t);
  const bin = tempDir(t);
  const failWith = (...lines) =>
    writeFileSync(path.join(bin, 'npx'), `#!/bin/sh\ncat >&2 <<'END'\n${lines.join('\n')}\nEND\nexit 1\n`, { mode: 0o755 });
  process.env.PATH = `${bin}${path.delimiter}${process.env.PATH}`;
  const log = 'npm error A complete log of this run can be found in: /root/.npm/_logs/debug-0.log';
  for (const [lines, reason] of [
    [
      ['npm error code ETARGET', 'npm error notarget No matching version found for agent@9.', 'npm error notarget In most cases', log],
      'No matching version found for agent@9.',
    ],
    [
      [
        'npm error code ECONNREFUSED',
        'npm error syscall connect',
        'npm error errno ECONNREFUSED',
        'npm error FetchError: request failed',
        'npm error     at emit (node:events:1:2)',
        log,
      ],
      'FetchError: request failed',
    ],
    [['npm ERR! code E404', 'npm ERR! 404 Not Found - GET /agent', log], 'Not Found - GET /agent'],
  ]) {
    failWith(...lines);
    await assert.rejects(start({ startedByRunner: true, tag: reason, command: ['npx'] }), {
      message: `npx did not start: npx cannot run it: ${reason}`,
    });
  }
});

test('an agent that is signed out during a turn explains the sign-in, too', async (t) => {
  const authMethods = [{ id: 'login', name: 'Log in', description: 'In a terminal' }];
  const { hub, log, prompt, start } = await setUp(t, { initialize: { authMethods } });
  const { session } = await start();
  prompt(session.id, [{ fail: { code: -32000, message: 'Authentication required' } }]);
  await hub.untilReady(session.id, 1);
  const sentence = 'node is not signed in: Authentication required\n- Log in: In a terminal\nThen send a message.';
  assert.deepEqual(hub.transcript(session.id), [`Error: ${sentence}`, '(ready)']);
  assert.deepEqual(log.warnings, [sentence]);
});

test('a session does not wait long for a slow agent', async (t) => {
  const { hub, prompt, start } = await setUp(t, { startDelayMs: 600 });
  const { session } = await start({ agentStartTimeoutMs: 50 });
  assert.deepEqual(hub.transcript(session.id), []);
  prompt(session.id, [{ say: 'at last' }]);
  await hub.untilReady(session.id, 1);
  assert.deepEqual(hub.transcript(session.id), ['at last', '(ready)']);
});

test('an abort does not wait for an agent that is starting, and says that the agent is starting', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t, { startDelayMs: 60_000 });
  const { session } = await start({ agentStartTimeoutMs: 50 });
  prompt(session.id, [{ say: 'never' }]);
  await hub.waitUntil(() => hub.sessions.get(session.id).thinking, 'the turn');
  assert.equal((await hub.abort(session.id)).aborted, true);
  await hub.untilReady(session.id, 1);
  assert.deepEqual(hub.transcript(session.id), ['Aborted. node is still starting, and does not get the message.', '(ready)']);
  assert.deepEqual(calls('session/prompt'), []);
});

test('an agent that never answers fails to start with advice, and the next message starts the agent again', async (t) => {
  const { hub, calls, prompt, log, start } = await setUp(t, { startDelayMs: 60_000, startError: 'Waiting for the browser' });
  const [lines, timers] = [[], []];
  const { start: startTimer } = SilenceTimer.prototype;
  t.mock.method(
    SilenceTimer.prototype,
    'start',
    /** @this {SilenceTimer} */ function startAndRecord() {
      timers.push(this);
      startTimer.call(this);
    },
  );
  const { session } = await start({ agentStartTimeoutMs: 50, log: { ...log, debug: (line) => lines.push(line) } });
  const isWritten = (text) => lines.some((line) => line.includes(text));
  await eventually(() => isWritten('A line that is no JSON') && isWritten('Waiting for the browser'), 'the lines of the agent');
  timers.at(-1).expire();
  const [line] = await hub.waitUntil(() => hub.transcript(session.id).length > 0 && hub.transcript(session.id), 'the error');
  const sentence =
    /^node did not start: it has not answered for 60 s\.\nA line that is no JSON\nWaiting for the browser\n(.*\n)?Check the network connection of this computer, and start it in a terminal to see what it waits for: \S*node \S+scripted-agent\.mjs/;
  assert.match(line, sentence);
  assert.match(line, /\nThe next message starts node again\.$/);
  const { metadata } = await hub.waitUntil(
    () => hub.sessions.get(session.id).metadata.lifecycleState === 'failed' && hub.sessions.get(session.id),
    'the state',
  );
  assert.match(metadata.agentError, sentence);
  agentOf(session).environment.SCRIPT = '{}';
  prompt(session.id, [{ say: 'now' }]);
  await hub.untilReady(session.id, 1);
  const recovered = await hub.waitUntil(
    () => hub.sessions.get(session.id).metadata.lifecycleState === 'running' && hub.sessions.get(session.id),
    'the new state',
  );
  assert.equal('agentError' in recovered.metadata, false);
  assert.deepEqual(hub.transcript(session.id).slice(1), ['now', '(ready)']);
  assert.equal(calls('initialize').length, 2);
});

test('the silence of an agent in a turn is reported once, but not while the agent waits for the user', async (t) => {
  const { hub, prompt, release, untilRequest, start } = await setUp(t);
  const { session } = await start();
  const sid = session.id;
  const { silenceTimer } = agentOf(session).turns;
  prompt(sid, [...askToRun('a', 'ls'), { until: 'reported' }, { say: 'Done.' }]);
  const id = await untilRequest(sid);
  for (let passed = 0; passed < 2; passed += 1) silenceTimer.expire();
  assert.deepEqual(hub.transcript(sid), ['> ls']);
  await hub.call(sid, 'permission', { id, approved: true });
  await hub.waitUntil(() => hub.transcript(sid).includes('ran ls'), 'the end of the command');
  silenceTimer.expire();
  const notice =
    'node has sent nothing for 60 s. It may be waiting for its model, or try again after an error of the model: check the network connection and the sign-in or key of the agent on its computer. Stop ends the turn.';
  await hub.waitUntil(() => hub.transcript(sid).includes(notice), 'the notice');
  release('reported');
  await hub.untilReady(sid, 1);
  assert.deepEqual(hub.transcript(sid), ['> ls', 'ran ls', notice, 'Done.', '(ready)']);
});

test('an abort completes even if a process that the agent started keeps the output of the agent open', async (t) => {
  const { hub, prompt, scriptHome, start } = await setUp(t, { ignoresCancel: true });
  const { session } = await start({ cancelTimeoutMs: 50 });
  prompt(session.id, [{ say: 'I work.' }, { detach: 60 }, { wait: 60_000 }]);
  await hub.waitUntil(() => hub.sessions.get(session.id).deltas?.length > 0, 'the turn');
  await eventually(() => existsSync(path.join(scriptHome, 'detached')), 'the process');
  const pid = Number(readFileSync(path.join(scriptHome, 'detached'), 'utf8'));
  t.after(() => process.kill(pid, 'SIGKILL'));
  assert.equal((await hub.abort(session.id)).aborted, true);
  assert.deepEqual(hub.transcript(session.id), ['I work.', 'Aborted.', '(ready)']);
});

test('a start that fails leaves no empty session behind, and keeps a session with messages', async (t) => {
  const { hub, prompt, start } = await setUp(t);
  const failing = { startedByRunner: true, command: ['false'] };
  await assert.rejects(start({ ...failing, tag: 'new' }), /^Error: false did not start/);
  assert.deepEqual(pluck([...hub.sessions.values()], 'tag'), []);
  const first = await start({ tag: 'old' });
  prompt(first.session.id, [{ say: 'hello' }]);
  await hub.untilReady(first.session.id, 1);
  await first.stop();
  process.env.SCRIPT = JSON.stringify({ startError: 'No', crashes: true });
  await assert.rejects(start({ startedByRunner: true, tag: 'old' }), /^Error: node did not start/);
  assert.deepEqual([...hub.sessions.keys()], [first.session.id]);
});

test('the first prompt is the title of a session, until the agent reports a title', async (t) => {
  const { hub, prompt, start } = await setUp(t, RESUMES);
  const first = await start();
  const { id } = first.session;
  const title = () => hub.sessions.get(id).metadata.summary?.text;
  hub.postMessage(id, '  Fix the tests\nof the parser');
  await hub.untilReady(id, 1);
  await hub.waitUntil(() => title() === 'Fix the tests', 'the first prompt as the title');
  await first.stop();
  await start();
  prompt(id, [{ say: 'again' }]);
  await hub.untilReady(id, 2);
  assert.equal(title(), 'Fix the tests');
  prompt(id, [{ update: { sessionUpdate: 'session_info_update', title: 'Tests of the parser' } }]);
  await hub.waitUntil(() => title() === 'Tests of the parser', 'the title of the agent');
  prompt(id, [{ say: 'more' }]);
  await hub.untilReady(id, 4);
  assert.equal(title(), 'Tests of the parser');
});
