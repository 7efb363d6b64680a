// Fetching the messages of a session.

import assert from 'node:assert/strict';
import { beforeEach, mock, test } from 'node:test';
import type { HubEvent } from '../src/api/types.ts';
import { keepUnsentOnly } from '../src/state/conversation.ts';
import { getConversation, openSessionId, setOpenSession, state, updateConversation } from '../src/state/store.ts';
import type { OutgoingMessage } from '../src/content/unstored-messages.ts';
import { EMPTY_STATE } from '../src/state/types.ts';
import { delayResponses, seqs, setup, updateEvent } from './support/fake-hub.ts';
import { flushPromises } from './support/promises.ts';

beforeEach(() => {
  state.value = EMPTY_STATE;
  openSessionId.value = null;
});

test('fetches older messages page by page', async () => {
  const { sync } = setup(130);
  await sync.fetchNewestMessages('a');
  assert.deepEqual([seqs()[0], seqs().length, getConversation('a').hasOlder], [71, 60, true]);
  await sync.fetchOlderMessages('a');
  await sync.fetchOlderMessages('a');
  assert.deepEqual([seqs()[0], seqs().length, getConversation('a').hasOlder], [1, 130, false]);
  await sync.fetchOlderMessages('a');
  assert.equal(seqs().length, 130);
});

test('fetches all pages after the newest message', async () => {
  const { sync, hub } = setup(2);
  await sync.fetchNewestMessages('a');
  hub.count = 450;
  await sync.fetchNewerMessages('a');
  assert.deepEqual(
    seqs(),
    Array.from({ length: 450 }, (_, at) => at + 1),
  );
});

test('continues after a page with a single large message', async () => {
  const { sync, hub } = setup(2);
  await sync.fetchNewestMessages('a');
  hub.count = 4;
  hub.maxPageSize = 1;
  await sync.fetchNewerMessages('a');
  assert.deepEqual(seqs(), [1, 2, 3, 4]);
});

test('replaces a renumbered history by the newest page', async () => {
  const { sync, hub } = setup(3);
  await sync.fetchNewestMessages('a');
  hub.messageIdPrefix = 'merged';
  hub.count = 90;
  await sync.fetchNewerMessages('a');
  assert.deepEqual([seqs()[0], seqs().at(-1), getConversation('a').messages[0]?.id], [31, 90, 'merged31']);
});

test('keeps all messages of recently opened sessions, and only the unsent messages of other sessions', async () => {
  const { sync } = setup(3);
  const outgoing = (text: string, status: OutgoingMessage['status']): OutgoingMessage => ({
    localId: text,
    text,
    attachments: [],
    createdAt: 0,
    status,
  });
  const loaded = () =>
    Object.entries(state.value.conversations).map(([id, { messages, outgoing }]) => [
      id,
      messages.length,
      outgoing.map(({ text }) => text).join(),
    ]);
  for (const id of ['s1', 's2', 's3', 's4', 's5', 's6', 's7']) {
    setOpenSession(id);
    await sync.fetchNewerMessages(id);
    if (id === 's1')
      updateConversation(id, (conversation) => ({ ...conversation, outgoing: [outgoing('sent', 'sent'), outgoing('unsent', 'waiting')] }));
  }
  setOpenSession('s8');
  assert.deepEqual(loaded(), [
    ['s1', 0, 'unsent'],
    ['s3', 3, ''],
    ['s4', 3, ''],
    ['s5', 3, ''],
    ['s6', 3, ''],
    ['s7', 3, ''],
  ]);
  setOpenSession('s1');
  await sync.fetchNewerMessages('s1');
  assert.deepEqual(loaded()[0], ['s1', 3, 'unsent']);
});

test('stops fetching messages of a session that the store has dropped', async () => {
  const { sync, hub, requests } = setup(2);
  await sync.fetchNewestMessages('a');
  hub.count = 1000;
  const release = delayResponses(hub);
  const fetching = sync.fetchNewerMessages('a');
  await flushPromises();
  updateConversation('a', keepUnsentOnly);
  requests.length = 0;
  release();
  await fetching;
  assert.deepEqual(requests, []);
});

test('ignores a page of older messages if the oldest loaded message has changed in the meantime', async () => {
  const { sync, hub } = setup(130);
  await sync.fetchNewestMessages('a');
  const release = delayResponses(hub);
  const fetching = sync.fetchOlderMessages('a');
  await flushPromises();
  updateConversation('a', (conversation) => ({ ...conversation, messages: conversation.messages.slice(-10) }));
  release();
  await fetching;
  assert.deepEqual([seqs()[0], seqs().length], [121, 10]);
});

test('fetches a message that arrives during the fetch of the first page', async () => {
  const { sync, hub } = setup(2);
  const release = delayResponses(hub);
  const first = sync.fetchNewestMessages('a');
  hub.count = 3;
  const event = sync.handleEvent({
    type: 'message-received',
    sessionId: 'a',
    message: { id: 'm3', seq: 3, localId: null, content: 'x', createdAt: 0 },
  });
  release();
  await Promise.all([first, event]);
  assert.deepEqual(seqs(), [1, 2, 3]);
});

test('drops a live text that got no delta for 30 s, and all live texts when the connection is lost', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  const { sync } = setup(1);
  await sync.fetchNewestMessages('a');
  const write = (id: string, offset: number) => sync.handleEvent({ type: 'message-delta', sessionId: 'a', id, offset, text: 'x' });
  const liveTexts = () => getConversation('a').live.map(({ id, pieces }) => [id, ...pieces.map(({ text }) => text)]);
  await write('l', 0);
  mock.timers.tick(29_999);
  await Promise.all([write('l', 1), write('m', 0)]);
  mock.timers.tick(29_999);
  await write('m', 1);
  assert.deepEqual(liveTexts(), [
    ['l', 'xx'],
    ['m', 'xx'],
  ]);
  mock.timers.tick(1);
  assert.deepEqual(liveTexts(), [['m', 'xx']], 'the agent may have ended');
  sync.dropLiveText();
  assert.deepEqual(liveTexts(), []);
});

test('keeps a live text that arrives before its session is opened', async (t) => {
  // Otherwise the timer that drops a live text keeps this process running for 30 s.
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { sync } = setup(1);
  await sync.handleEvent({ type: 'message-delta', sessionId: 'a', id: 'l', offset: 0, text: 'so far' });
  setOpenSession('a');
  await sync.fetchNewestMessages('a');
  assert.deepEqual(
    getConversation('a').live.map(({ pieces }) => pieces[0]?.text),
    ['so far'],
  );
});

test('shows the messages that the hub holds, and asks for them only if there are any', async () => {
  const { sync, hub, requests } = setup(0);
  const held = () => getConversation('a').outgoing.map(({ localId, status }) => [localId, status]);
  const count = () => requests.filter((path) => path.endsWith('/held-messages')).length;
  await sync.handleEvent(updateEvent('a', { heldMessagesCount: 1 }));
  assert.equal(count(), 0, 'the session was never opened');
  await Promise.all([sync.fetchSession('a'), sync.fetchNewestMessages('a')]);
  await flushPromises();
  assert.deepEqual([count(), held()], [0, []]);
  hub.held = ['l1', 'l2'];
  await sync.handleEvent(updateEvent('a', { heldMessagesCount: 2 }));
  assert.deepEqual(held(), [
    ['l1', 'held'],
    ['l2', 'held'],
  ]);
  hub.held = [];
  await sync.handleEvent(updateEvent('a', { heldMessagesCount: 0 }));
  assert.deepEqual([count(), held()], [1, []]);
});

test('retryMessages repeats a failed first fetch, and does nothing after a successful fetch', async () => {
  const { sync, hub, requests } = setup(3);
  hub.isUnavailable = true;
  await sync.fetchNewerMessages('a');
  assert.equal(getConversation('a').loadState.status, 'failed');
  hub.isUnavailable = false;
  await sync.retryMessages('a');
  assert.deepEqual(seqs(), [1, 2, 3]);
  const { length } = requests;
  await sync.retryMessages('a');
  assert.equal(requests.length, length);
});

test('a followed session that is closed keeps a limited number of messages, and an open session keeps all', async () => {
  const { sync } = setup(1);
  setOpenSession('a');
  await sync.fetchNewestMessages('a');
  const receive = (seq: number) =>
    sync.handleEvent({
      ...{ type: 'message-received', sessionId: 'a' },
      message: { id: `m${seq}`, seq, localId: null, content: 'x', createdAt: 0 },
    } as HubEvent);
  for (let seq = 2; seq <= 500; seq += 1) await receive(seq);
  assert.equal(seqs().length, 500);
  openSessionId.value = null;
  await receive(501);
  assert.deepEqual([seqs().length, seqs().at(-1), getConversation('a').hasOlder], [200, 501, true]);
});
