import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TaskQueue } from '../src/task-queue.mjs';
import { deferred, nextTurn, quietLog } from './support/wait.mjs';

/** A queue whose tasks end when `finish` is called. */
function setup(mode = 'remote') {
  const started = [];
  const handled = [];
  const sent = [];
  let task = deferred();
  const settings = { mode };
  const queue = new TaskQueue({
    settings,
    send: async (message) => sent.push(message.content.data.type ?? 'text'),
    handle: ({ text }) => {
      started.push(text);
      task = deferred();
      return task.promise;
    },
    interrupt: async () => task.resolve(),
    onHandled: (seq) => handled.push(seq),
    log: quietLog(),
  });
  const receive = (seq, text) => queue.receive({ seq, content: { role: 'user', content: { type: 'text', text } } });
  const finish = async () => {
    task.resolve();
    for (let i = 0; i < 5; i += 1) await nextTurn();
  };
  return { queue, settings, started, handled, sent, receive, finish };
}

test('items wait for the start, and are handled one at a time', async () => {
  const { queue, started, handled, receive, finish } = setup();
  receive(1, 'a');
  receive(2, 'b');
  assert.deepEqual(started, []);
  queue.start();
  assert.deepEqual(started, ['a']);
  await finish();
  assert.deepEqual([started, handled], [['a', 'b'], [1]]);
  await finish();
  assert.deepEqual(handled, [1, 2]);
});

test('an abort ends the current task and drops the others, which count as handled', async () => {
  const { queue, started, handled, receive, finish } = setup();
  queue.start();
  receive(1, 'a');
  receive(2, 'b');
  assert.deepEqual(await queue.abort(), { aborted: true, dropped: 1 });
  await finish();
  assert.deepEqual([started, handled], [['a'], [1, 2]]);
});

test('an abort names the attachments of a dropped message, also when it fails', async () => {
  const sent = [];
  const queue = new TaskQueue({
    settings: { mode: 'remote' },
    send: async (message) => sent.push(message.content.data.message.content[0].text),
    handle: () => new Promise(() => {}),
    interrupt: async () => {
      throw new Error('The agent does not answer.');
    },
    log: quietLog(),
  });
  queue.start();
  const attachments = [{ path: '/uploads/1-a.png', filename: 'a.png' }];
  queue.receive({ seq: 1, content: { role: 'user', content: { type: 'text', text: 'a' } } });
  queue.receive({ seq: 2, content: { role: 'user', content: { type: 'text', text: '', attachments } } });
  await assert.rejects(queue.abort(), /does not answer/);
  assert.deepEqual(sent, ['Dropped, not run:\na.png']);
});

test('messages of the web wait in local mode, and the handled seq does not pass them', async () => {
  const { queue, settings, started, handled, receive, finish } = setup('local');
  queue.start();
  receive(1, 'from the web');
  queue.add({ text: 'typed', isLocal: true });
  queue.receive({ seq: 2, content: null });
  await finish();
  assert.deepEqual([started, handled], [['typed'], []]);
  settings.mode = 'remote';
  queue.wake();
  await finish();
  assert.deepEqual([started, handled], [['typed', 'from the web'], [1]]);
});

test('after stop nothing is started, and the current message stays unhandled', async () => {
  const { queue, started, handled, receive, finish } = setup();
  queue.start();
  receive(1, 'a');
  receive(2, 'b');
  queue.stop();
  await finish();
  assert.deepEqual([started, handled], [['a'], []]);
});
