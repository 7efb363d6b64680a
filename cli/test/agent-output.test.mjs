/** What an agent writes besides its messages, messages that are too long, errors of its model, and its silence. */

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { test } from 'node:test';
import { Turns } from '../src/turns.mjs';
import { eventually } from '../../packages/cli-kit/test/support/wait.mjs';
import { agentOf, setUp } from './support/setup.mjs';

test('an agent that does not start shows the last lines of its standard output', async (t) => {
  const { start } = await setUp(t);
  const command = ['sh', '-c', 'echo first; seq 1 18; echo "Accept the license first."; echo warning >&2'];
  const lines = Array.from({ length: 18 }, (_, i) => i + 1).join('\n');
  await assert.rejects(start({ startedByRunner: true, tag: 'other', command }), {
    message: `sh did not start: exit code 0:\n${lines}\nAccept the license first.\nwarning`,
  });
  const killed = ['sh', '-c', 'echo "debug: connected" >&2; kill -9 $$'];
  await assert.rejects(start({ startedByRunner: true, tag: 'third', command: killed }), {
    message: 'sh did not start: ended by SIGKILL, without a reason in its output',
  });
});

test('lines that are no messages are not answered: an agent may write many before it reads, and log what it reads', async (t) => {
  const { hub, prompt, start } = await setUp(t, { linesAtStart: 20_000, logsInput: true });
  const { session } = await start();
  prompt(session.id, [{ say: 'hello' }]);
  await hub.untilReady(session.id, 1);
  assert.deepEqual(hub.transcript(session.id), ['hello', '(ready)']);
});

test('a message of the agent that is too long is skipped, and the turn goes on', async (t) => {
  const { hub, prompt, start } = await setUp(t);
  const { session } = await start();
  prompt(session.id, [{ say: 'before' }, { huge: 33 * 1024 * 1024 }, { say: 'after' }]);
  await hub.untilReady(session.id, 1);
  const lines = hub.transcript(session.id);
  assert.equal(
    lines.filter((line) => line.startsWith('A message of the agent has 34 MiB. The limit is 32 MiB. It is not shown.')).length,
    1,
  );
  assert.ok(lines.at(-2).endsWith('after'), lines.at(-2));
});

test('if the directory of a session was deleted, the error names the directory', async (t) => {
  const { hub, dir, prompt, start } = await setUp(t);
  const { session } = await start();
  prompt(session.id, [{ crash: 'out of memory' }]);
  await hub.untilReady(session.id, 1);
  rmSync(dir, { recursive: true });
  prompt(session.id, [{ say: 'not reached' }]);
  await hub.untilReady(session.id, 2);
  assert.equal(hub.transcript(session.id).at(-2), `Error: node did not start: There is no directory ${dir}.`);
});

test('an error of the model stands once in the conversation: if the agent has just said it, the turn only ends with an error', async (t) => {
  const { hub, prompt, start } = await setUp(t);
  const { session } = await start();
  const fail = { code: -32603, message: 'Internal error: Prompt is too long.' };
  prompt(session.id, [{ say: 'Prompt is too long.' }, { fail }]);
  await hub.untilReady(session.id, 1);
  prompt(session.id, [{ say: 'I look.' }, { fail }]);
  await hub.untilReady(session.id, 2);
  assert.deepEqual(hub.transcript(session.id), [
    'Prompt is too long.',
    'The turn ended with this error.',
    '(ready)',
    'I look.',
    'Error: Internal error: Prompt is too long.',
    '(ready)',
  ]);
});

test('a model that refuses requests is reported once in a turn for each status, and the activity counts the attempts', async (t) => {
  const { hub, prompt, release, start } = await setUp(t);
  const { session } = await start();
  const retry = (status, attempt, delay = 600) => ({ retry: { error_status: status, attempt, max_retries: 10, retry_delay_ms: delay } });
  const steps = [retry(401, 1), retry(401, 2), retry(401, 3), { until: 'seen' }, { say: 'Signed in.' }];
  prompt(session.id, steps);
  const activity = 'request to the model failed with status 401, attempt 3 of 10';
  await hub.waitUntil(() => hub.sessions.get(session.id).activity === activity, 'the activity');
  release('seen');
  await hub.untilReady(session.id, 1);
  prompt(session.id, [retry(529, 1), { say: 'Back.' }, retry(429, 1, 30_000), retry(529, 2), retry(429, 3), retry(null, 4)]);
  await hub.untilReady(session.id, 2);
  const again = 'node repeats its request, up to 10 times.';
  const choose = 'Wait, or stop the turn and choose another model.';
  assert.deepEqual(hub.transcript(session.id), [
    "(warning: The model's provider refuses the key or the sign-in (status 401). Stop the turn, and check the key or the sign-in on its computer.)",
    'Signed in.',
    '(ready)',
    'Back.',
    `(warning: The model's provider limits the requests (status 429). ${again} ${choose})`,
    `(warning: The model's provider has a fault or is overloaded (status 529). ${again} ${choose})`,
    `(warning: The model cannot be reached. ${again} Check the network connection of its computer.)`,
    '(ready)',
  ]);
});

test("the tokens in the context and the limits of the plan are in the session's metadata, each limit as it was last reported", async (t) => {
  const { hub, prompt, start } = await setUp(t);
  const { session } = await start();
  const usage = { sessionUpdate: 'usage_update', used: 1000, size: 200_000 };
  const report = (windows) => ({ update: { ...usage, _meta: { '_claude/rateLimit': { unifiedWindows: windows } } } });
  const week = { utilization: 0.2, resetsAt: 1_796_000_000 };
  prompt(session.id, [
    report({ five_hour: { utilization: 0.4 }, seven_day: week }),
    report({ five_hour: { utilization: 0.5, resetsAt: 1_795_000_000 } }),
  ]);
  await hub.untilReady(session.id, 1);
  const { limits, usage: stored } = hub.sessions.get(session.id).metadata;
  const expected = [
    { id: 'seven_day', used: 0.2, resetsAt: 1_796_000_000_000 },
    { id: 'five_hour', used: 0.5, resetsAt: 1_795_000_000_000 },
  ];
  assert.deepEqual([limits, stored.used, stored.size], [expected, 1000, 200_000]);
});

test('the silence of an agent while a call runs is reported after ten times as long, with the command', async (t) => {
  const { hub, prompt, release, start } = await setUp(t);
  const { session } = await start();
  const { silenceTimer } = agentOf(session).turns;
  const call = {
    sessionUpdate: 'tool_call',
    toolCallId: 'a',
    title: 'npm test',
    kind: 'execute',
    status: 'in_progress',
    rawInput: { command: 'npm test' },
  };
  prompt(session.id, [
    { update: call },
    { until: 'reported' },
    { update: { ...call, sessionUpdate: 'tool_call_update', status: 'completed' } },
  ]);
  await hub.waitUntil(() => hub.transcript(session.id).includes('> npm test'), 'the call');
  for (let passed = 0; passed < 9; passed += 1) silenceTimer.expire();
  assert.deepEqual(hub.transcript(session.id), ['> npm test']);
  silenceTimer.expire();
  const notice = 'node has sent nothing for 10 min, while this runs: npm test\nStop ends it together with the turn.';
  await hub.waitUntil(() => hub.transcript(session.id).includes(notice), 'the notice');
  release('reported');
  await hub.untilReady(session.id, 1);
  assert.equal(hub.transcript(session.id).filter((line) => line === notice).length, 1);
});

test('a notice of silence has the last line of error output of its own turn, and no earlier one', async (t) => {
  const { hub, calls, prompt, release, log, start } = await setUp(t, { startError: 'The settings are old.' });
  const details = [];
  const { session } = await start({ log: { ...log, debug: (text) => details.push(text) } });
  const { silenceTimer } = agentOf(session).turns;
  const untilReceived = (line) => eventually(() => details.some((text) => text.includes(`agent: ${line}`)), line);
  const untilNotice = (count) =>
    hub.waitUntil(
      () => hub.transcript(session.id).filter((line) => line.startsWith('node has sent nothing for')).length === count,
      'a notice',
    );
  await untilReceived('The settings are old.');
  prompt(session.id, [{ until: 'reported' }]);
  await eventually(() => calls('session/prompt').length === 1, 'the first turn');
  silenceTimer.expire();
  await untilNotice(1);
  assert.match(hub.transcript(session.id).at(-1), /Stop ends the turn\.$/);
  release('reported');
  await hub.untilReady(session.id, 1);
  prompt(session.id, [{ warn: 'The model is busy.' }, { until: 'reported again' }]);
  await untilReceived('The model is busy.');
  silenceTimer.expire();
  await untilNotice(2);
  assert.match(hub.transcript(session.id).at(-1), /Stop ends the turn\. The last line of its error output: The model is busy\.$/);
  release('reported again');
  await hub.untilReady(session.id, 2);
});

test('an agent that only repeats its state in a turn is silent; text, calls, plans and retries are no silence', (t) => {
  const output = { isWaiting: false, translator: { openCalls: [] } };
  const turns = new Turns(/** @type {any} */ ({ options: {}, output, turnLog: { onUpdate: () => {} } }));
  const { mock } = t.mock.method(turns.silenceTimer, 'reset');
  const endsSilence = (sessionUpdate) => {
    mock.resetCalls();
    turns.onUpdate({ sessionUpdate }, false);
    return mock.callCount() === 1;
  };
  for (const state of ['usage_update', 'session_info_update', 'available_commands_update', 'config_option_update', 'current_mode_update'])
    assert.ok(!endsSilence(state), state);
  for (const work of ['agent_message_chunk', 'agent_thought_chunk', 'tool_call', 'tool_call_update', 'plan', 'model_retry', 'notice'])
    assert.ok(endsSilence(work), work);
});

test('a slash command that the agent neither lists nor answers is named; a listed one may be silent', async (t) => {
  const { hub, prompt, start } = await setUp(t, { silentCommands: true });
  const { session } = await start();
  prompt(session.id, [{ update: { sessionUpdate: 'available_commands_update', availableCommands: [{ name: 'clear', description: '' }] } }]);
  await hub.untilReady(session.id, 1);
  hub.postMessage(session.id, '/clear all');
  await hub.untilReady(session.id, 2);
  hub.postMessage(session.id, '/nothing at all');
  await hub.untilReady(session.id, 3);
  const notice = 'node has not answered, and lists no command /nothing. Type / to see its commands.';
  assert.deepEqual(hub.transcript(session.id), ['(ready)', '(ready)', notice, '(ready)']);
});

test('a change of settings without a mode or a model is refused', async (t) => {
  const { hub, start } = await setUp(t);
  const { session } = await start();
  const { error, success } = await hub.call(session.id, 'set-session-config', { effort: 'high' });
  assert.equal(success, false);
  assert.match(error, /^"permissionMode" or "modelMode" is missing\. Other options of an agent are set with set-session-option\.$/);
});
