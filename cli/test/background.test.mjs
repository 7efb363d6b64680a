/** Work of the agent outside of a turn. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BackgroundWork } from '../src/background.mjs';
import { setUp } from './support/setup.mjs';

const say = (text) => ({ update: { sessionUpdate: 'agent_message_chunk', messageId: text, content: { type: 'text', text } } });
/** How Claude Code ends a turn that it has started itself. */
const END = { update: { sessionUpdate: 'usage_update', used: 1, size: 2, _meta: { '_claude/origin': { kind: 'task-notification' } } } };

/** Starts a session whose agent works on after its first turn, when the test releases the steps. */
async function startWork(t, background) {
  const setup = await setUp(t);
  const { session } = await setup.start();
  const { hub } = setup;
  const sid = session.id;
  setup.prompt(sid, [{ say: 'It runs.' }, { background }]);
  await hub.untilReady(sid, 1);
  const isThinking = (wanted) => hub.waitUntil(() => hub.sessions.get(sid).thinking === wanted, `thinking to be ${wanted}`);
  await isThinking(false);
  return { ...setup, sid, isThinking };
}

test('the answer to a background command is live while it is written, and the session is ready again after it', async (t) => {
  const { hub, sid, release, isThinking } = await startWork(t, [{ until: 'start' }, say('The build is '), { until: 'end' }, END]);
  release('start');
  await isThinking(true);
  await hub.waitUntil(() => hub.sessions.get(sid).deltas.some(({ text }) => text === 'The build is '), 'live text');
  release('end');
  await hub.untilReady(sid, 2);
  assert.deepEqual(hub.transcript(sid), ['It runs.', '(ready)', 'The build is', '(ready)']);
  await isThinking(false);
});

test('the work of an agent that does not report its end has ended when no call runs and nothing was written for a while', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const openCalls = [{}];
  const told = [];
  const translator = /** @type {any} */ ({ isWorking: true, openCalls, endTurn: () => [] });
  const work = new BackgroundWork({
    silenceMs: 100,
    output: { translator, send: async () => {}, sendMessage: async () => told.push('ready') },
    liveText: { start: () => {}, stop: () => {} },
    setThinking: (thinking) => told.push(thinking),
    publishUsage: () => {},
  });
  work.onUpdate({});
  t.mock.timers.tick(1_000);
  assert.deepEqual(told, [true]);
  openCalls.pop();
  work.onUpdate({});
  t.mock.timers.tick(99);
  work.onUpdate({});
  t.mock.timers.tick(99);
  // The agent repeats its state, which is no work.
  work.onUpdate({ sessionUpdate: 'usage_update', used: 1, size: 2 });
  assert.ok(work.isRunning);
  t.mock.timers.tick(1);
  assert.deepEqual([told, work.isRunning], [[true, false, 'ready'], false]);
});

test('an abort ends the work, and says so', async (t) => {
  const { hub, sid, release, isThinking } = await startWork(t, [{ until: 'start' }, say('The build is '), { until: 'never' }]);
  release('start');
  await isThinking(true);
  assert.equal((await hub.abort(sid)).aborted, true);
  await hub.untilReady(sid, 2);
  assert.deepEqual(hub.transcript(sid), ['It runs.', '(ready)', 'The build is', 'Aborted.', '(ready)']);
  await isThinking(false);
});

test('a message takes the place of the work, without a second "ready"', async (t) => {
  const { hub, sid, prompt, release, isThinking } = await startWork(t, [{ until: 'start' }, say('The build is '), { until: 'never' }]);
  release('start');
  await isThinking(true);
  prompt(sid, [{ say: 'Hello' }]);
  await hub.untilReady(sid, 2);
  assert.deepEqual(hub.transcript(sid), ['It runs.', '(ready)', 'The build is', 'Hello', '(ready)']);
});
