/**
 * The versions of the Agent Client Protocol: the bridge speaks version 1. What would differ in the draft of version 2 is listed here, so
 * that a new draft in the SDK shows what changed.
 */

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { loadSchema } from './support/acp-schema.mjs';
import { EFFORT } from './support/effort.mjs';
import { askToRun, setUp } from './support/setup.mjs';

const TRANSCRIPTS = new URL('./transcripts/', import.meta.url);

const readLog = (file) =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

const MODES = { currentModeId: 'default', availableModes: ['default', 'plan'].map((id) => ({ id, name: id })) };
const MODELS = { currentModelId: 'small', availableModels: ['small', 'large'].map((id) => ({ modelId: id, name: id })) };
const FORM = { message: 'Which?', requestedSchema: { type: 'object', properties: { color: { type: 'string' } }, required: [] } };
const SCRIPT = {
  recordsWire: true,
  initialize: {
    agentCapabilities: { loadSession: true, sessionCapabilities: { resume: {}, fork: {}, list: {}, close: {} } },
    _meta: { steering: { supported: true } },
  },
  newSession: { configOptions: [EFFORT], modes: MODES, models: MODELS },
};

const METHODS = [
  '_session/steering',
  'initialize',
  'session/cancel',
  'session/close',
  'session/fork',
  'session/list',
  'session/load',
  'session/new',
  'session/prompt',
  'session/resume',
  'session/set_config_option',
  'session/set_mode',
  'session/set_model',
];

/** Gemini CLI has no options, and still accepts this method of an earlier draft. */
const SENT_BEYOND_VERSION_1 = ['> session/set_model: no such method'];

/** Qwen Code has methods of its own. The bridge answers the request with an error, and ignores the notifications. */
const RECEIVED_BEYOND_VERSION_1 = [
  '< craft/drainMidTurnQueue: no such method',
  '< qwen/notify/session/mode-update: no such method',
  '< qwen/notify/session/prompt-suggestion: no such method',
];

/** What an agent of version 2 would refuse. */
const SENT_DIFFERENTLY_IN_VERSION_2 = [
  "> initialize params: must have required property 'info'",
  '> session/load: no such method',
  "> session/set_config_option params: must have required property 'type'",
  '> session/set_mode: no such method',
  '> session/set_model: no such method',
];

/** What an agent of version 2 would send in another form. */
const RECEIVED_DIFFERENTLY_IN_VERSION_2 = [
  '< craft/drainMidTurnQueue: no such method',
  '< fs/write_text_file: no such method',
  "< initialize result: must have required property 'info'",
  '< qwen/notify/session/mode-update: no such method',
  '< qwen/notify/session/prompt-suggestion: no such method',
  "< session/new result: /configOptions/* must have required property 'configId'",
  "< session/prompt result: must have required property 'messageId'",
  "< session/request_permission params: must have required property 'title'",
  "< session/update agent_message_chunk: must have required property 'messageId'",
  "< session/update agent_thought_chunk: must have required property 'messageId'",
  "< session/update available_commands_update: /availableCommands/* must have required property 'type'",
  "< session/update available_commands_update: /availableCommands/*/input must have required property 'type'",
  "< session/update config_option_update: /configOptions/* must have required property 'configId'",
  '< session/update current_mode_update: no such update',
  '< session/update plan: no such update',
  '< session/update tool_call: no such update',
  "< session/update tool_call_update: /content/* must have required property 'content'",
  "< session/update user_message_chunk: must have required property 'messageId'",
];

/** Runs a session that uses every method of the bridge. Returns the messages of each process of the agent. */
async function recordBridge(t) {
  const { hub, scriptHome, prompt, untilRequest, start, setScript, calls } = await setUp(t, SCRIPT);
  const first = await start({ tag: 'one' });
  const sid = first.session.id;
  prompt(sid, [...askToRun('c1', 'make'), { elicit: FORM }]);
  const id = await untilRequest(sid);
  await hub.call(sid, 'permission', { id, approved: true });
  const form = await untilRequest(sid);
  await hub.call(sid, 'permission', { id: form, approved: true, answers: { color: ['red'] } });
  await hub.untilReady(sid, 1);
  await hub.call(sid, 'set-session-config', { permissionMode: 'plan' });
  await hub.call(sid, 'set-session-config', { modelMode: 'large' });
  await hub.call(sid, 'set-session-option', { id: 'effort', value: 'high' });
  prompt(sid, [{ wait: 60_000 }]);
  await hub.waitUntil(() => calls('session/prompt').length === 2, 'the prompt');
  const waiting = hub.postMessage(sid, 'Also this.');
  await hub.waitUntil(() => hub.sessions.get(sid).agentState.queuedMessages?.length === 1, 'the queue');
  await hub.call(sid, 'queue', { action: 'send', seq: waiting.seq });
  await hub.abort(sid);
  await hub.untilReady(sid, 2);
  const { length } = hub.sessions.get(sid).messages;
  await start({ tag: 'two', fork: { sessionId: sid, seq: length + 1 } });
  await first.stop();
  await start({ tag: 'one' });
  setScript({ ...SCRIPT, history: { turns: 1 } });
  const { agentId } = first.session.state;
  await start({ tag: 'three', importSession: agentId });
  await hub.waitUntil(() => calls('session/list').length > 0, 'the title of the imported session');
  return readdirSync(scriptHome)
    .filter((name) => name.startsWith('wire-'))
    .map((name) => readLog(path.join(scriptHome, name)));
}

const readTranscripts = () => readdirSync(TRANSCRIPTS).map((name) => readLog(new URL(name, TRANSCRIPTS)));

/** Returns the differences of several logs in one direction. */
const differences = (schema, logs, dir) =>
  [...new Set(logs.flatMap((log) => schema.differences(log)))].filter((line) => line.startsWith(dir)).sort();

test('an agent that speaks only another version of the protocol is not used', async (t) => {
  const { calls, start } = await setUp(t, { initialize: { protocolVersion: 2 } });
  await assert.rejects(start(), {
    message:
      'node cannot open a session: it speaks version 2 of the Agent Client Protocol, and this bridge speaks version 1.' +
      ' Update session-gateway-agent, or install an earlier version of the agent.',
  });
  assert.equal(calls('session/new').length, 0);
});

test('the versions of the protocol', async (t) => {
  const sent = await recordBridge(t);
  const received = readTranscripts();

  await t.test('the bridge and the recorded agents send only what version 1 allows, with known exceptions', (test) => {
    const schema = loadSchema(1);
    if (!schema) return test.skip('the SDK has no schema of version 1');
    const methods = new Set(sent.flat().flatMap(({ dir, msg }) => (dir === '>' && msg.method ? msg.method : [])));
    assert.deepEqual([...methods].sort(), METHODS);
    assert.deepEqual(differences(schema, sent, '>'), SENT_BEYOND_VERSION_1);
    assert.deepEqual(differences(schema, received, '<'), RECEIVED_BEYOND_VERSION_1);
  });

  await t.test('the bridge and the recorded agents differ from the draft of version 2 only as listed', (test) => {
    const schema = loadSchema(2);
    if (!schema) return test.skip('the SDK has no schema of version 2');
    assert.deepEqual(differences(schema, sent, '>'), SENT_DIFFERENTLY_IN_VERSION_2);
    assert.deepEqual(differences(schema, received, '<'), RECEIVED_DIFFERENTLY_IN_VERSION_2);
  });

  await t.test('a message that a version does not allow is a difference', (test) => {
    const schema = loadSchema(1);
    if (!schema) return test.skip('the SDK has no schema of version 1');
    /** @type {import('./support/acp-schema.mjs').Recorded[]} */
    const log = [
      { dir: '>', msg: { id: 1, method: 'session/prompt', params: { sessionId: 's', prompt: 'no list' } } },
      { dir: '<', msg: { id: 1, result: { stopReason: 'bored' } } },
      { dir: '<', msg: { method: 'session/update', params: { sessionId: 's', update: { sessionUpdate: 'unknown' } } } },
    ];
    assert.deepEqual(schema.differences(log), [
      '< session/prompt result: /stopReason must be equal to constant',
      '< session/update unknown: no such update',
      '> session/prompt params: /prompt must be array',
    ]);
  });
});
