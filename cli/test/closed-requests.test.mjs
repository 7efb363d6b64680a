/** Requests of calls that end while the request is open. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../packages/cli-kit/test/support/wait.mjs';
import { askToRun, setUp } from './support/setup.mjs';

const selected = (optionId) => ({ outcome: { outcome: 'selected', optionId } });
const CANCELED = { outcome: { outcome: 'cancelled' } };

/** A step that asks for permission, and does not wait for the answer. */
const askBeside = (id, parent) => {
  const [, { ask }] = askToRun(id, `run ${id}`);
  const meta = parent ? { _meta: { claudeCode: { parentToolUseId: parent } } } : {};
  return { askLater: { afterMs: 0, ...ask, toolCall: { ...ask.toolCall, ...meta } } };
};

for (const [ending, steps] of Object.entries({
  'ends regularly': [],
  'ends with an error': [{ fail: { code: -32603, message: 'Internal error' } }],
})) {
  test(`a request whose call was closed is canceled when the turn ${ending}`, async (t) => {
    const { hub, calls, prompt, untilRequest, start } = await setUp(t);
    const { session } = await start();
    prompt(session.id, [askBeside('a'), ...askToRun('b', 'ls'), ...steps]);
    await hub.waitUntil(() => Object.keys(hub.sessions.get(session.id).agentState.requests ?? {}).length === 2, 'two requests');
    await hub.call(session.id, 'permission', { id: 'b', approved: true });
    await hub.untilReady(session.id, 1);
    await eventually(() => calls('answer').length === 2, 'the answers');
    const { requests, completedRequests } = hub.sessions.get(session.id).agentState;
    assert.deepEqual([requests, completedRequests.a.status, completedRequests.a.reason], [{}, 'canceled', 'The call has ended']);
    assert.deepEqual(calls('answer'), [selected('yes'), CANCELED]);
    assert.equal((await hub.call(session.id, 'permission', { id: 'a', approved: true })).success, false);
    prompt(session.id, askToRun('c', 'ls'));
    await hub.call(session.id, 'permission', { id: await untilRequest(session.id), approved: true });
    await hub.untilReady(session.id, 2);
  });
}

test('a request is canceled when the agent itself ends the call', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t);
  const { session } = await start();
  const [announced] = askToRun('a', 'run a');
  prompt(session.id, [
    announced,
    askBeside('a'),
    ...askToRun('b', 'ls'),
    { update: { sessionUpdate: 'tool_call_update', toolCallId: 'a', status: 'failed' } },
    ...askToRun('c', 'ls'),
  ]);
  await hub.waitUntil(() => Object.keys(hub.sessions.get(session.id).agentState.requests ?? {}).length === 2, 'two requests');
  await hub.call(session.id, 'permission', { id: 'b', approved: true });
  await hub.waitUntil(() => hub.pendingRequest(session.id) === 'c', 'only the third request');
  assert.equal(hub.sessions.get(session.id).agentState.completedRequests.a.status, 'canceled');
  await hub.call(session.id, 'permission', { id: 'c', approved: true });
  await hub.untilReady(session.id, 1);
  assert.deepEqual(calls('answer'), [selected('yes'), CANCELED, selected('yes')]);
});

test('a request of a sub-agent stays open when the turn ends, because the sub-agent works on', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t);
  const { session } = await start();
  const parent = { toolCallId: 'task', title: 'Task', kind: 'think', status: 'in_progress', rawInput: { prompt: 'Look' } };
  prompt(session.id, [{ update: { sessionUpdate: 'tool_call', ...parent } }, askBeside('a', 'task'), ...askToRun('b', 'ls')]);
  await hub.waitUntil(() => Object.keys(hub.sessions.get(session.id).agentState.requests ?? {}).length === 2, 'two requests');
  await hub.call(session.id, 'permission', { id: 'b', approved: true });
  await hub.untilReady(session.id, 1);
  assert.equal(hub.pendingRequest(session.id), 'a');
  await hub.call(session.id, 'permission', { id: 'a', approved: true });
  await eventually(() => calls('answer').length === 2, 'the answers');
  assert.deepEqual(calls('answer'), [selected('yes'), selected('yes')]);
});
