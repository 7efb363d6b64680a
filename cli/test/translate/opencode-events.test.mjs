/** The events of opencode's server, as version 1.18.33 sends them, and what they become. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { OpencodeEvents } from '../../src/translate/opencode-events.mjs';
import { createTranslator } from '../../src/translate/translator.mjs';

const OWN = 'ses_own';
const CHILD = 'ses_child';

const partEvent = (sessionID, part) => ({ type: 'message.part.updated', properties: { sessionID, part: { sessionID, ...part } } });
const toolEvent = (sessionID, tool, callID, state) => partEvent(sessionID, { type: 'tool', tool, callID, state });
const deltaEvent = (sessionID, partID, delta) => ({ type: 'message.part.delta', properties: { sessionID, partID, field: 'text', delta } });
const TASK = toolEvent(OWN, 'task', 'call_task', {
  status: 'running',
  title: 'Look around',
  input: { description: 'Look around', prompt: 'Look for the word.' },
  metadata: { parentSessionId: OWN, sessionId: CHILD },
});
const askedEvent = (sessionID, id, permission, metadata) => ({
  type: 'permission.asked',
  properties: { id, sessionID, permission, patterns: ['*'], metadata, always: ['*'], tool: { messageID: 'msg_1', callID: `call_${id}` } },
});

/** Reads the events, and returns what each one tells. */
const readAll = (events, reader = new OpencodeEvents(OWN)) => events.map((event) => reader.read(event));

test('the text and the calls of a sub-agent are stored below the call that started it', () => {
  const translator = createTranslator({ agent: 'opencode', flavor: 'epsilon' });
  const events = [
    TASK,
    partEvent(CHILD, { type: 'text', id: 'prompt', text: 'Look for the word.' }),
    partEvent(CHILD, { type: 'text', id: 'answer', text: '', time: { start: 1 } }),
    deltaEvent(CHILD, 'answer', 'I '),
    deltaEvent(CHILD, 'answer', 'look.'),
    toolEvent(CHILD, 'bash', 'call_1', { status: 'pending', input: {} }),
    toolEvent(CHILD, 'bash', 'call_1', { status: 'running', input: { command: 'ls' } }),
    partEvent(CHILD, { type: 'text', id: 'answer', text: 'I look.', time: { start: 1, end: 2 } }),
    toolEvent(CHILD, 'bash', 'call_1', { status: 'completed', input: { command: 'ls' }, output: 'a.txt\n', title: 'ls' }),
  ];
  const stored = readAll(events)
    .flatMap(({ updates }) => updates.flatMap((update) => translator.onUpdate(update)))
    .map(({ content }) => content.content.data);
  const described = stored.map(({ parent_tool_use_id: parent, message }) => {
    const [{ text, name, input, content }] = message.content;
    return [parent, text ?? (name ? `${name} ${input.command ?? input.prompt}` : content)];
  });
  assert.deepEqual(described, [
    [undefined, 'Agent Look for the word.'],
    ['call_task', 'I look.'],
    ['call_task', 'Bash ls'],
    ['call_task', 'a.txt\n'],
  ]);
});

test("the agent's own calls and requests, which arrive by the protocol, are left out", () => {
  const own = [toolEvent(OWN, 'bash', 'call_1', { status: 'running', input: { command: 'ls' } }), askedEvent(OWN, 'per_1', 'bash', {})];
  assert.deepEqual(readAll(own), [{ updates: [] }, {}]);
});

test('a request of a sub-agent shows all that would be approved, and offers no permanent approval', () => {
  const diff = '--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-a\n+b\n';
  const told = readAll([
    TASK,
    askedEvent(CHILD, 'per_1', 'bash', { command: 'touch a' }),
    askedEvent(CHILD, 'per_2', 'edit', { filepath: '/app/a.txt', diff }),
    askedEvent(CHILD, 'per_3', 'external_directory', {}),
  ]);
  const requests = told.slice(1).map(({ request }) => request);
  assert.deepEqual(pluck(requests, 'requestId', 'params.toolCall.kind', 'params.toolCall.rawInput'), [
    ['per_1', 'execute', { command: 'touch a' }],
    ['per_2', 'edit', { filepath: '/app/a.txt', diff }],
    ['per_3', 'other', { patterns: ['*'] }],
  ]);
  assert.equal(requests[0].params.toolCall._meta.parentToolCallId, 'call_task');
  assert.deepEqual(pluck(requests[0].params.options, 'kind'), ['allow_once', 'reject_once']);
});

test('a request is settled when it is answered elsewhere, and when its sub-agent ends', () => {
  const reader = new OpencodeEvents(OWN);
  readAll([TASK, ...['per_1', 'per_2', 'per_3'].map((id) => askedEvent(CHILD, id, 'bash', { command: id }))], reader);
  const replied = { type: 'permission.replied', properties: { sessionID: CHILD, requestID: 'per_2', reply: 'once' } };
  const idle = (sessionID) => ({ type: 'session.idle', properties: { sessionID } });
  assert.deepEqual(readAll([replied, idle(OWN), idle(CHILD), idle(CHILD)], reader), [
    { settled: ['per_2'] },
    { settled: [] },
    { settled: ['per_1', 'per_3'] },
    { settled: [] },
  ]);
});

test('each repetition of a request that the model refused is reported', () => {
  const status = (fields) => ({ type: 'session.status', properties: { sessionID: OWN, status: fields } });
  const [busy, first, second] = readAll([
    status({ type: 'busy' }),
    status({ type: 'retry', attempt: 1, message: 'Rate limit reached' }),
    status({ type: 'retry', attempt: 2, message: 'Rate limit reached' }),
  ]);
  const retry = (attempt) => [{ sessionUpdate: 'model_retry', attempt, reason: 'Rate limit reached' }];
  assert.deepEqual([busy.updates, first.updates, second.updates], [[], retry(1), retry(2)]);
});

test('events of unknown types and without fields are left out', () => {
  for (const event of [null, 'text', {}, { type: 'new.event' }, { type: 'message.part.updated', properties: null }]) {
    assert.deepEqual(new OpencodeEvents(OWN).read(event), {});
  }
});
