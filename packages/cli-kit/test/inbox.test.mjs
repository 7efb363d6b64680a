import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_PAGE_MESSAGES } from '../src/hub-client.mjs';
import { Inbox } from '../src/inbox.mjs';
import { deferred, nextTurn } from './support/wait.mjs';

/**
 * An inbox whose history the test fills.
 * @param {{startSeq?: number, fetchAfter?: (seq: number) => Promise<{seq: number}[]>, isConnected?: () => boolean}} [options]
 */
function createInbox({ startSeq = 0, fetchAfter, isConnected = () => true } = {}) {
  const history = [];
  const receivedSeqs = [];
  const box = new Inbox({
    startSeq,
    isConnected,
    retryDelayMs: 1,
    fetchAfter: fetchAfter ?? (async (seq) => history.filter((message) => message.seq > seq).slice(0, MAX_PAGE_MESSAGES)),
    onMessage: ({ seq }) => receivedSeqs.push(seq),
  });
  return { box, receivedSeqs, history };
}

const upTo = (n) => Array.from({ length: n }, (_, i) => ({ seq: i + 1 }));

test('a message that arrives live and in the history is delivered once', async () => {
  const { box, receivedSeqs, history } = createInbox();
  history.push(...upTo(3));
  box.receive({ seq: 1 });
  await box.catchUp();
  box.receive({ seq: 3 });
  box.receive({ seq: 4 });
  assert.deepEqual(receivedSeqs, [1, 2, 3, 4]);
});

test('live messages are delivered after the history before them', async () => {
  const page = deferred();
  const { box, receivedSeqs } = createInbox({ fetchAfter: () => page.promise });
  const caughtUp = box.catchUp();
  box.receive({ seq: 4 });
  box.receive({ seq: 3 });
  await nextTurn();
  assert.deepEqual(receivedSeqs, []);
  page.resolve(upTo(3));
  await caughtUp;
  assert.deepEqual(receivedSeqs, [1, 2, 3, 4]);
});

test('a long history is read page by page', async () => {
  const { box, receivedSeqs, history } = createInbox({ startSeq: 10 });
  history.push(...upTo(2 * MAX_PAGE_MESSAGES + 30));
  await box.catchUp();
  assert.deepEqual(
    receivedSeqs,
    upTo(2 * MAX_PAGE_MESSAGES + 30)
      .map(({ seq }) => seq)
      .slice(10),
  );
});

test('live messages beyond the buffer are read from the history', async () => {
  const all = upTo(2000);
  const gate = deferred();
  const { box, receivedSeqs } = createInbox({
    fetchAfter: async (seq) => {
      await gate.promise;
      return all.filter((message) => message.seq > seq).slice(0, MAX_PAGE_MESSAGES);
    },
  });
  const caughtUp = box.catchUp();
  for (const message of all) box.receive(message);
  gate.resolve();
  await caughtUp;
  assert.deepEqual(
    receivedSeqs,
    all.map(({ seq }) => seq),
  );
});

test('reading a page is retried while there is a connection; without a connection, the next connection reads it', async () => {
  let connected = true;
  let failures = 2;
  const { box, receivedSeqs } = createInbox({
    isConnected: () => connected,
    fetchAfter: async (seq) => {
      failures -= 1;
      if (failures >= 0) throw new Error('not now');
      return upTo(2).filter((message) => message.seq > seq);
    },
  });
  await box.catchUp();
  assert.deepEqual(receivedSeqs, [1, 2]);
  connected = false;
  failures = 1;
  await box.catchUp();
  assert.equal(failures, 0);
});

test('own messages are delivered when no seq before them is missing', () => {
  const { box, receivedSeqs } = createInbox({ startSeq: 5 });
  box.skipOwn(6);
  box.skipOwn(8);
  assert.equal(box.lastSeq, 6);
  box.receive({ seq: 7 });
  assert.equal(box.lastSeq, 8);
  assert.deepEqual(receivedSeqs, [6, 7, 8]);
});
