// Sub-agents, and the limits of the user's plan.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { SubagentSessions } from '../../src/translate/subagent-sessions.mjs';
import { describe } from './support/replay.mjs';
import { createSession } from './support/session.mjs';

const inCall = (parentToolUseId) => ({ _meta: { claudeCode: { parentToolUseId } } });
const START = { name: 'Agent', kind: 'think', status: 'in_progress', rawInput: { prompt: 'Look' } };
const RUN = { name: 'Bash', kind: 'execute', status: 'in_progress', rawInput: { command: 'make' } };

/** Describes the items of the agent, each followed by the items of its sub-agent. */
const shown = ({ hub }) => hub.timeline().map((item) => [describe([item])[0], ...describe(item.children ?? [])]);

test('the texts of two sub-agents and of the agent that arrive alternately are not mixed', () => {
  const session = createSession();
  session.call('a', START);
  session.call('b', START);
  for (const [parent, text] of [
    ['a', 'one '],
    ['b', 'three '],
    ['a', 'two'],
    ['b', 'four'],
  ])
    session.say(text, inCall(parent));
  session.say('I wait.');
  session.callUpdate('a', { status: 'completed' });
  session.callUpdate('b', { status: 'failed' });
  session.endTurn();
  assert.deepEqual(shown(session), [
    ['Agent {"prompt":"Look"} -> done', 'text "one two"'],
    ['Agent {"prompt":"Look"} -> failed', 'text "three four"'],
    ['text "I wait."'],
  ]);
});

test('the texts and the calls of a sub-agent of Qwen Code are below the call that started the sub-agent', () => {
  const session = createSession({ agent: 'qwen' });
  const inside = { _meta: { parentToolCallId: 'a', subagentType: 'general-purpose', timestamp: 1 } };
  session.call('a', { ...START, _meta: { toolName: 'agent' } });
  session.say('I look.', inside);
  session.call('c', { ...RUN, _meta: { toolName: 'run_shell_command', ...inside._meta } });
  session.callUpdate('c', { status: 'completed', ...inside });
  session.callUpdate('a', { status: 'completed' });
  session.say('The helper is done.');
  session.endTurn();
  assert.deepEqual(shown(session), [
    ['agent {"prompt":"Look"} -> done', 'text "I look."', 'run_shell_command {"command":"make"} -> done'],
    ['text "The helper is done."'],
  ]);
});

test('a sub-agent of a sub-agent is below the call that started the inner sub-agent', () => {
  const session = createSession();
  session.call('a', START);
  session.call('b', { ...START, ...inCall('a') });
  session.call('c', { ...RUN, ...inCall('b') });
  session.endTurn();
  const [{ children }] = session.hub.timeline();
  assert.deepEqual(describe(children[0].children), ['Bash {"command":"make"} -> done']);
});

test('a sub-agent that works after the end of its call and of the turn stays below the call', () => {
  const session = createSession();
  session.call('a', START);
  session.say('Started.', inCall('a'));
  session.callUpdate('a', { status: 'completed' });
  for (let turn = 0; turn < 3; turn += 1) {
    session.say(`Turn ${turn}.`);
    session.endTurn();
  }
  session.call('c', { ...RUN, ...inCall('a') });
  session.say('Done.', inCall('a'));
  session.clock.ms += 60_000;
  session.hub.store(session.translator.takeDueRecords());
  assert.deepEqual(shown(session)[0].slice(1), ['text "Started."', 'Bash {"command":"make"} -> running', 'text "Done."']);
});

test('the plan, the usage and the todos of a sub-agent do not replace the values of the session', () => {
  const session = createSession();
  session.call('a', START);
  session.update({ sessionUpdate: 'plan', entries: [{ content: 'mine', status: 'pending' }], ...inCall('a') });
  session.update({ sessionUpdate: 'usage_update', used: 5, size: 10, ...inCall('a') });
  const todos = { name: 'TodoWrite', rawInput: { todos: [{ content: 'mine', status: 'pending' }] } };
  session.call('t', { ...todos, status: 'in_progress', ...inCall('a') });
  session.callUpdate('t', { status: 'completed', ...inCall('a') });
  session.endTurn();
  assert.deepEqual(shown(session), [['Agent {"prompt":"Look"} -> done']]);
  assert.deepEqual(session.hub.otherRecords, []);
});

test('updates of a call that the agent has never named are updates of the agent itself', () => {
  const session = createSession();
  for (const parent of ['unknown', '', 5, null, {}]) session.say(`${parent}. `, { messageId: String(parent), ...inCall(parent) });
  session.endTurn();
  assert.equal(session.hub.timeline().length, 5);
});

test('a request of a sub-agent is shown with its call', () => {
  const session = createSession();
  session.call('a', START);
  const request = session.ask({ toolCallId: 'c', ...RUN, status: 'pending', ...inCall('a') });
  session.decide(request, { status: 'denied' });
  session.endTurn();
  assert.deepEqual(shown(session), [['Agent {"prompt":"Look"} -> done', 'Bash {"command":"make"} -> failed "Denied." (denied)']]);
});

test('the limits of the plan are reported when they change, also without a usage', () => {
  const session = createSession();
  const report = (info) => session.update({ sessionUpdate: 'usage_update', _meta: { '_claude/rateLimit': info } });
  report({ rateLimitType: 'five_hour', utilization: 0.4, resetsAt: 1_795_000_000 });
  report({ rateLimitType: 'five_hour', utilization: 0.4, resetsAt: 1_795_000_000 });
  report({ unifiedWindows: { five_hour: { utilization: 0.5, resetsAt: 1_795_000_000 }, seven_day: { utilization: 0.1 } } });
  for (const info of [null, 'x', [], {}, { rateLimitType: 'five_hour' }, { rateLimitType: '<b>', utilization: 1 }, { unifiedWindows: [1] }])
    report(info);
  report({ rateLimitType: 'five_hour', utilization: -1 });
  report({ unifiedWindows: { __proto__: null, seven_day: null } });
  const resetsAt = 1_795_000_000_000;
  assert.deepEqual(pluck(session.hub.recordsOf('limits'), 'limits'), [
    [{ id: 'five_hour', used: 0.4, resetsAt }],
    [
      { id: 'five_hour', used: 0.5, resetsAt },
      { id: 'seven_day', used: 0.1 },
    ],
  ]);
  assert.deepEqual(session.hub.recordsOf('usage'), []);
});

/** A session whose agent sends its sub-agents as sessions. `send` stores the update of a session. */
function createSessionWithSubagents() {
  const session = createSession({ agent: 'codex' });
  const subagents = new SubagentSessions();
  const send = (sessionId, update) => {
    const message = subagents.rewrite({ method: 'session/update', params: { sessionId, update } });
    if (message !== null) session.update(message.params.update);
  };
  const announce = (parent, sessionId, fields) => send(parent, { sessionUpdate: 'subagent_update', sessionId, ...fields });
  const say = (sessionId, text) => send(sessionId, { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });
  return { ...session, subagents, send, announce, say };
}

test('a sub-agent that is a session of its own is a call, and its sub-agents are below this call', () => {
  const session = createSessionWithSubagents();
  session.announce('root', 'a', { title: 'helper', description: 'Look', state: { state: 'running' } });
  session.announce('a', 'b', {});
  session.say('b', 'I am inside.');
  session.announce('a', 'b', { state: { state: 'idle', stopReason: 'error', error: { code: 1, message: 'It broke.' } } });
  session.announce('root', 'a', { state: { state: 'idle', stopReason: 'cancelled' } });
  session.endTurn();
  const [item, ...others] = session.hub.timeline();
  assert.deepEqual(others, []);
  assert.deepEqual(describe([item]), ['Agent {"description":"helper","prompt":"Look"} -> failed']);
  assert.deepEqual(describe(item.children), ['Agent {"title":"Sub-agent"} -> failed "It broke."']);
  assert.deepEqual(describe(item.children[0].children), ['text "I am inside."']);
});

test('the requests of a sub-agent that is a session name its call, and its state does not concern the session', () => {
  const { subagents, ...session } = createSessionWithSubagents();
  session.announce('root', 'a', { capabilities: { cancel: {} } });
  const request = { method: 'session/request_permission', params: { sessionId: 'a', toolCall: { toolCallId: 'c', _meta: { x: 1 } } } };
  assert.deepEqual(subagents.rewrite(request).params.toolCall, { toolCallId: 'c', _meta: { x: 1, parentToolCallId: 'a' } });
  assert.equal(subagents.rewrite({ ...request, params: { ...request.params, sessionId: 'root' } }).params.toolCall._meta.x, 1);
  for (const sessionUpdate of ['config_option_update', 'current_mode_update', 'session_info_update', 'usage_update', 'user_message_chunk'])
    assert.equal(subagents.rewrite({ method: 'session/update', params: { sessionId: 'a', update: { sessionUpdate } } }), null);
  assert.deepEqual(subagents.cancelable, ['a']);
  session.announce('root', 'a', { state: { state: 'idle' } });
  assert.deepEqual(subagents.cancelable, ['a']);
  session.announce('root', 'a', { capabilities: { cancel: null } });
  assert.deepEqual(subagents.cancelable, []);
});

test('a sub-agent without a valid announcement is dropped, and other messages are unchanged', () => {
  const { subagents, announce, hub } = createSessionWithSubagents();
  for (const sessionId of [undefined, null, '', 5, {}]) announce('root', sessionId, {});
  assert.deepEqual(hub.messages, []);
  for (const message of [
    null,
    5,
    {},
    { method: 'session/update' },
    { method: 'session/update', params: { update: 5 } },
    { id: 1, result: {} },
  ])
    assert.deepEqual(subagents.rewrite(message), message);
});
