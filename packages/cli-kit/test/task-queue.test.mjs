import assert from 'node:assert/strict';
import { renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { queueMethods } from '../src/queue-methods.mjs';
import { TaskQueue } from '../src/task-queue.mjs';
import { StateStore } from '../src/state.mjs';
import { tempDir } from './support/repository.mjs';
import { deferred, nextTurn, quietLog } from './support/wait.mjs';

/** Opens the state of a session. @param {string} home */
function openState(home) {
  const state = new StateStore({ home, hub: 'http://hub', namespace: 'a' }).openSession('/dir');
  state.attach('s', 0);
  return state;
}

/** A queue whose tasks end when `finish` is called. `restart` returns the queue of the next process, which has received nothing. */
function setup(t, { mode = 'remote', home = tempDir(t), steer = undefined } = {}) {
  const state = openState(home);
  const started = [];
  const sent = [];
  const reports = [];
  let task = deferred();
  const settings = { mode };
  const queue = new TaskQueue({
    settings,
    state,
    send: async (message) => sent.push(message.content.data),
    handle: ({ seq, text }) => {
      started.push(text);
      if (seq !== undefined) state.recordCall({ id: `call-${seq}`, name: 'run', input: {} }, seq);
      task = deferred();
      return task.promise;
    },
    interrupt: async () => task.resolve(),
    ...(steer && { canSteer: () => true, steer }),
    onQueueChange: (report) => reports.push(report),
    log: quietLog(),
  });
  const receive = (seq, text) => queue.receive({ id: `m${seq}`, seq, content: { role: 'user', content: { type: 'text', text } } });
  /** Receives the messages that the queue gets after a restart. */
  const receiveAgain = (...texts) => texts.forEach((text, index) => index + 1 > state.lastSeq && receive(index + 1, text));
  const settle = async () => {
    for (let i = 0; i < 8; i += 1) await nextTurn();
  };
  const finish = async () => {
    task.resolve();
    await settle();
  };
  const call = (params) => queueMethods(queue).queue(params);
  /** Ends the process as `kill -9` does: only what is on the disk is left. */
  const restart = (options = {}) => {
    clearTimeout(state.saveTimer);
    state.saveTimer = null;
    rmSync(state.lockFile);
    return setup(t, { mode, home, steer, ...options });
  };
  t.after(() => clearTimeout(state.saveTimer));
  const notes = () => sent.filter(({ queued, type }) => queued || type === 'message');
  return { queue, state, settings, started, sent, reports, notes, receive, receiveAgain, settle, finish, call, restart };
}

const NOT_QUEUED = {
  success: false,
  code: 'not_queued',
  error: 'The message is not in the queue: the agent has received it, or it was canceled.',
};

test('items wait for the start, and are handled one at a time', async (t) => {
  const { queue, state, started, receive, finish } = setup(t);
  receive(1, 'a');
  receive(2, 'b');
  assert.deepEqual(started, []);
  queue.start();
  assert.deepEqual(started, ['a']);
  await finish();
  assert.deepEqual([started, state.lastSeq], [['a', 'b'], 2]);
  await finish();
  assert.equal(state.lastSeq, 2);
});

test('at most 500 queued messages are reported, and the others wait too', async (t) => {
  const { queue, reports, started, receive, settle, finish, call } = setup(t);
  queue.start();
  for (let seq = 1; seq <= 504; seq += 1) receive(seq, `message ${seq}`);
  const range = (first, last) => Array.from({ length: last - first + 1 }, (_, index) => first + index);
  assert.deepEqual(reports.at(-1).seqs, range(2, 501));
  assert.deepEqual(await call({ action: 'cancel', seq: 503 }), { success: true });
  await settle();
  await finish();
  assert.equal(started.at(-1), 'message 2');
  assert.deepEqual(reports.at(-1).seqs, range(3, 502));
  await finish();
  assert.deepEqual(reports.at(-1).seqs, [...range(4, 502), 504]);
  assert.equal((await queue.abort()).dropped, 500);
  await settle();
  assert.deepEqual(reports.at(-1).seqs, []);
});

test('an abort ends the current task and drops the waiting messages, which count as handled', async (t) => {
  const { queue, started, notes, receive, restart } = setup(t);
  queue.start();
  receive(1, 'a');
  receive(2, 'b');
  assert.deepEqual(await queue.abort(), { aborted: true, dropped: 1 });
  assert.deepEqual(started, ['a']);
  const [{ message, queued }] = notes();
  assert.deepEqual([message, queued], ['Dropped, not run:\nb', [{ id: 'm2', change: 'canceled' }]]);
  const next = restart();
  next.queue.start();
  next.receiveAgain('a', 'b');
  assert.deepEqual(next.started, []);
});

test('what an abort has stopped or dropped is not run by the next process, even if the process is killed before the turn ends', async (t) => {
  const { queue, notes, receive, restart } = setup(t);
  // The agent is still starting, so that nothing is recorded about the running message.
  queue.handle = queue.interrupt = () => new Promise(() => {});
  queue.start();
  receive(1, 'a');
  receive(2, 'b');
  receive(3, 'c');
  void queue.abort();
  assert.equal(notes()[0].message, 'Dropped, not run:\nb\nc');
  const next = restart();
  next.queue.start();
  next.receiveAgain('a', 'b', 'c', 'd');
  assert.deepEqual(next.started, ['d']);
});

test('a message that is sent now in place of the running message stays the only one that the next process runs', async (t) => {
  const { queue, receive, call, restart } = setup(t);
  queue.handle = queue.interrupt = () => new Promise(() => {});
  queue.start();
  receive(1, 'a');
  receive(2, 'b');
  assert.deepEqual(await call({ action: 'send', seq: 2 }), { success: true });
  const next = restart();
  next.queue.start();
  next.receiveAgain('a', 'b');
  await next.settle();
  await next.finish();
  assert.deepEqual(next.started, ['b']);
});

test('an abort also drops a message that is being sent into the turn, if the agent refuses the message then', async (t) => {
  const refusal = deferred();
  const { queue, started, notes, receive, settle, call } = setup(t, { steer: () => refusal.promise });
  queue.start();
  receive(1, 'a');
  receive(2, 'b');
  const sent = call({ action: 'send', seq: 2 });
  await queue.abort();
  refusal.resolve(false);
  await sent;
  await settle();
  assert.deepEqual(started, ['a']);
  const [{ message, queued }] = notes();
  assert.deepEqual([message, queued], ['Dropped, not run:\nb', [{ id: 'm2', change: 'canceled' }]]);
});

test('an abort names the attachments of a dropped message, even if the task cannot be interrupted', async (t) => {
  const { queue, notes, receive } = setup(t);
  queue.interrupt = async () => {
    throw new Error('The agent does not answer.');
  };
  queue.start();
  receive(1, 'a');
  const attachments = [{ path: '/uploads/1-a.png', filename: 'a.png' }];
  queue.receive({ id: 'm2', seq: 2, content: { role: 'user', content: { type: 'text', text: '', attachments } } });
  await assert.rejects(queue.abort(), /does not answer/);
  assert.equal(notes()[0].message, 'Dropped, not run:\na.png');
});

test('while the terminal is in control, messages of the web wait, and do not count as handled', async (t) => {
  const { queue, state, settings, started, receive, finish } = setup(t, { mode: 'local' });
  queue.start();
  receive(1, 'from the web');
  queue.add({ text: 'typed', isLocal: true });
  queue.receive({ id: 'm2', seq: 2, content: null });
  await finish();
  assert.deepEqual([started, state.lastSeq], [['typed'], 0]);
  settings.mode = 'remote';
  queue.wake();
  await finish();
  await finish();
  assert.deepEqual([started, state.lastSeq], [['typed', 'from the web'], 2]);
});

test('after stop nothing is started, and a message that the agent has not received stays unhandled', async (t) => {
  const { queue, state, started, receive, finish } = setup(t);
  queue.handle = async ({ text }) => started.push(text);
  queue.start();
  queue.stop();
  receive(1, 'a');
  await finish();
  assert.deepEqual([started, state.lastSeq], [[], 0]);
});

test('a queued message is edited, and the agent receives the new text, also after the process was killed', async (t) => {
  const { queue, started, reports, receive, call, restart } = setup(t);
  queue.start();
  receive(1, 'running');
  receive(2, 'typo');
  assert.deepEqual(await call({ action: 'edit', seq: 2, text: 'fixed' }), { success: true });
  assert.deepEqual(reports.at(-1), { seqs: [2], texts: { 2: 'fixed' }, steers: false });
  assert.deepEqual(started, ['running']);
  const next = restart();
  next.receiveAgain('running', 'typo');
  assert.deepEqual(next.reports.at(-1), { seqs: [2], texts: { 2: 'fixed' }, steers: false });
  next.queue.start();
  await next.settle();
  assert.deepEqual(next.started, ['fixed']);
  const [{ message, queued }] = next.notes();
  assert.deepEqual([message, queued], ['The agent receives the edited message:\nfixed', [{ id: 'm2', change: 'started', text: 'fixed' }]]);
  assert.deepEqual(next.state.queue.texts, {});
});

test('a canceled message is not run, also after the process was killed before the hub stored the note', async (t) => {
  const { queue, notes, reports, receive, settle, call, restart } = setup(t);
  queue.start();
  receive(1, 'running');
  receive(2, 'stays');
  receive(3, 'goes');
  assert.deepEqual(await call({ action: 'cancel', seq: 3 }), { success: true });
  assert.deepEqual(await call({ action: 'cancel', seq: 3 }), NOT_QUEUED);
  await settle();
  assert.deepEqual(reports.at(-1).seqs, [2]);
  assert.deepEqual(notes()[0].queued, [{ id: 'm3', change: 'canceled' }]);
  const next = restart();
  assert.deepEqual(
    Object.values(next.state.queue.notes).map((/** @type {any} */ { content }) => content.data.message),
    ['Canceled, not run:\ngoes'],
  );
  next.queue.start();
  next.receiveAgain('running', 'stays', 'goes');
  await next.finish();
  await next.finish();
  assert.deepEqual([next.started, next.state.lastSeq], [['stays'], 3]);
});

test('a change that cannot be stored fails, and changes nothing', async (t) => {
  const { queue, state, receive, call } = setup(t);
  queue.start();
  for (const [index, text] of ['a', 'b', 'c'].entries()) receive(index + 1, text);
  const folder = path.dirname(state.file);
  renameSync(folder, `${folder}.away`);
  await assert.rejects(call({ action: 'cancel', seq: 2 }), /ENOENT/);
  await assert.rejects(call({ action: 'edit', seq: 2, text: 'd' }), /ENOENT/);
  await assert.rejects(call({ action: 'order', seqs: [3, 2] }), /ENOENT/);
  assert.deepEqual([queue.find(2)?.text, state.queue.handled, state.queue.order, state.queue.texts], ['b', [], [], {}]);
  renameSync(`${folder}.away`, folder);
  assert.deepEqual(await call({ action: 'cancel', seq: 2 }), { success: true });
});

test('a message that the agent has received cannot be edited, canceled, sent or moved', async (t) => {
  const { queue, started, receive, finish, call } = setup(t);
  queue.start();
  receive(1, 'a');
  receive(2, 'b');
  await finish();
  for (const action of ['edit', 'cancel', 'send']) assert.deepEqual(await call({ action, seq: 2, text: 'c' }), NOT_QUEUED);
  assert.deepEqual(await call({ action: 'order', seqs: [2] }), NOT_QUEUED);
  assert.deepEqual(started, ['a', 'b']);
});

test('messages run in the new order, also after the process was killed, and each runs once', async (t) => {
  const { queue, started, reports, receive, finish, call, restart } = setup(t);
  queue.start();
  receive(1, 'a');
  for (const [index, text] of ['b', 'c', 'd'].entries()) receive(index + 2, text);
  assert.deepEqual(await call({ action: 'order', seqs: [4, 2] }), { success: true });
  assert.deepEqual(reports.at(-1).seqs, [4, 2, 3]);
  receive(5, 'e');
  assert.deepEqual(reports.at(-1).seqs, [4, 2, 3, 5]);
  await finish();
  assert.deepEqual(started, ['a', 'd']);
  const next = restart();
  assert.equal(next.state.lastSeq, 1);
  next.queue.start();
  next.receiveAgain('a', 'b', 'c', 'd', 'e');
  for (let i = 0; i < 4; i += 1) await next.finish();
  assert.deepEqual([next.started, next.state.lastSeq], [['b', 'c', 'e'], 5]);
});

test('after a restart, no message runs before the message that a user has moved to the front is received', async (t) => {
  const { queue, receive, call, restart } = setup(t);
  queue.start();
  receive(1, 'running');
  receive(2, 'b');
  receive(3, 'c');
  await call({ action: 'order', seqs: [3, 2] });
  const next = restart();
  next.queue.start();
  next.receive(2, 'b');
  assert.deepEqual(next.started, []);
  next.receive(3, 'c');
  await next.settle();
  assert.deepEqual(next.started, ['c']);
});

test('the action `send` stops the turn and runs its message next, and the other messages stay in the queue', async (t) => {
  const { queue, started, notes, receive, settle, call } = setup(t);
  queue.start();
  receive(1, 'a');
  receive(2, 'b');
  receive(3, 'c');
  assert.deepEqual(await call({ action: 'send', seq: 3 }), { success: true });
  await settle();
  assert.deepEqual(started, ['a', 'c']);
  assert.deepEqual(
    notes().map(({ message, queued }) => message ?? queued),
    ['Stopped, because another message is sent now.', [{ id: 'm3', change: 'started' }]],
  );
  assert.deepEqual(queue.find(2)?.text, 'b');
});

test('the action `send` does not stop the turn if the agent takes messages during a turn', async (t) => {
  const steered = [];
  const { queue, started, notes, receive, settle, call, restart } = setup(t, { steer: async ({ text }) => steered.push(text) > 0 });
  queue.start();
  receive(1, 'a');
  receive(2, 'b');
  assert.deepEqual(await call({ action: 'send', seq: 2 }), { success: true });
  await settle();
  assert.deepEqual([started, steered], [['a'], ['b']]);
  assert.deepEqual(notes()[0].queued, [{ id: 'm2', change: 'started' }]);
  const next = restart();
  next.queue.start();
  next.receiveAgain('a', 'b');
  assert.deepEqual(next.started, []);
});

test('if the agent refuses a message during a turn, the action `send` stops the turn and runs the message next', async (t) => {
  const { queue, started, receive, settle, call } = setup(t, { steer: async () => false });
  queue.start();
  receive(1, 'a');
  receive(2, 'b');
  assert.deepEqual(await call({ action: 'send', seq: 2 }), { success: true });
  await settle();
  assert.deepEqual(started, ['a', 'b']);
});

test('a message that was being sent into a turn when the process was killed is not run again, and the conversation shows it', async (t) => {
  const { queue, receive, call, restart } = setup(t, { steer: () => new Promise(() => {}) });
  queue.start();
  receive(1, 'a');
  receive(2, 'b');
  void call({ action: 'send', seq: 2 });
  assert.deepEqual(await call({ action: 'cancel', seq: 2 }), NOT_QUEUED);
  const next = restart();
  next.queue.start();
  next.receiveAgain('a', 'b');
  assert.deepEqual(next.started, []);
  assert.equal(Object.keys(next.state.queue.notes).length, 1);
});

test('a message of the web is not sent while the terminal is in control', async (t) => {
  const { queue, receive, call } = setup(t, { mode: 'local' });
  queue.start();
  receive(1, 'a');
  assert.match((await call({ action: 'send', seq: 1 })).error, /^The terminal is in control/);
});

test('an edit is refused if the text is empty or too long, and an unknown action is refused', async (t) => {
  const { queue, state, receive, call } = setup(t);
  queue.start();
  for (const seq of [1, 2, 3, 4, 5, 6]) receive(seq, 'a');
  const edit = async (seq, text) => (await call({ action: 'edit', seq, text })).error;
  assert.equal(await edit(2, ' '), 'The message must have a text.');
  assert.equal(await edit(2, 7), 'The message must have a text.');
  assert.match(await edit(2, 'x'.repeat(32_001)), /^An edited message has at most 32000 characters, not 32001/);
  for (const seq of [2, 3, 4, 5]) assert.equal(await edit(seq, 'x'.repeat(32_000)), undefined);
  assert.match(await edit(6, 'x'), /at most 128000 characters, not 128001/);
  assert.equal(await edit(5, 'x'.repeat(31_999)), undefined);
  assert.equal(Object.keys(state.queue.texts).length, 4);
  assert.match((await call({ action: 'drop', seq: 2 })).error, /^"action" must be/);
  assert.match((await call({ action: 'order', seqs: 2 })).error, /^"seqs" must be a list/);
});
