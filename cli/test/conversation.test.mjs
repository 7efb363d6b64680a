/** The conversation with an agent, against an in-memory hub. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { askToRun, setUp } from './support/setup.mjs';

test('a prompt, a tool call and its approval are messages of the session', async (t) => {
  const { hub, calls, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start();
  prompt(session.id, [{ say: 'I will look.' }, ...askToRun('call-1', 'ls'), { say: 'Done.' }]);
  const id = await untilRequest(session.id);
  const stored = hub.sessions.get(session.id);
  assert.equal(id, 'call-1');
  const { tool, arguments: input } = stored.agentState.requests[id];
  assert.deepEqual([tool, input], ['Bash', { command: 'ls' }]);
  assert.deepEqual(hub.transcript(session.id), ['I will look.', '> ls']);
  assert.deepEqual(await hub.call(session.id, 'permission', { id, approved: true }), { success: true });
  await hub.untilReady(session.id, 1);
  assert.deepEqual(hub.transcript(session.id), ['I will look.', '> ls', 'ran ls', 'Done.', '(ready)']);
  assert.deepEqual(calls('answer'), [{ outcome: { outcome: 'selected', optionId: 'yes' } }]);
  assert.deepEqual(stored.thinkingChanges.slice(-2), [true, false]);
});

test('prompts are sent one at a time and in order', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t);
  const { session } = await start();
  prompt(session.id, [{ wait: 200 }, { say: 'first' }]);
  prompt(session.id, [{ say: 'second' }]);
  await hub.untilReady(session.id, 2);
  assert.deepEqual(hub.transcript(session.id), ['first', '(ready)', 'second', '(ready)']);
  assert.equal(calls('session/prompt').length, 2);
  assert.deepEqual(calls('session/cancel'), []);
});
