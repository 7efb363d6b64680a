// Reading from the hub.

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { Api } from '../src/api/client.ts';
import type { HubEvent } from '../src/api/types.ts';
import { unsentOf } from '../src/state/conversation.ts';
import { changeConversation, conversationOf, openSession, show, state } from '../src/state/store.ts';
import { Sync } from '../src/state/sync.ts';
import { EMPTY, type Outgoing } from '../src/state/types.ts';

interface Options {
  params?: { path?: { id: string }; query?: { beforeSeq?: number; afterSeq?: number; limit?: number; archived?: string } };
}

/** A hub with one session of `count` messages, whose answers can be held back. */
function place(count: number) {
  const asked: string[] = [];
  const hub = { count, prefix: 'm', largest: Infinity, isAway: false, hold: null as Promise<void> | null };
  const messages = (from: number, to: number) => Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => ({ id: `${hub.prefix}${from + at}`, seq: from + at, localId: null, content: 'x', createdAt: 0 }));
  const answer = (path: string, { params: { query = {} } = {} }: Options): unknown => {
    if (path === '/api/sessions') return { sessions: query.archived ? [line('old', 'archived')] : [line('a', 'running')] };
    if (path === '/api/machines') return { machines: [{ id: 'm' }] };
    if (path === '/api/sessions/{id}') return { session: { ...line('a', 'running'), metadata: { path: '/a', host: 'h' }, agentState: null } };
    const { afterSeq, beforeSeq = hub.count + 1, limit = 50 } = query;
    if (afterSeq !== undefined) {
      const to = Math.min(hub.count, afterSeq + Math.min(limit, hub.largest));
      return { messages: messages(afterSeq + 1, to), hasMore: to < hub.count };
    }
    const from = Math.max(1, beforeSeq - limit);
    return { messages: messages(from, beforeSeq - 1).toReversed(), hasMore: from > 1 };
  };
  const GET = async (path: string, options: Options = {}) => {
    const { query } = options.params ?? {};
    asked.push(query ? `${path} ${JSON.stringify(query)}` : path);
    const found = answer(path, options);
    await hub.hold;
    if (hub.isAway) return { error: { error: 'The hub is away.', code: 'hub_unavailable' }, response: new Response(null, { status: 503 }) };
    return { data: found, response: new Response() };
  };
  return { sync: new Sync({ GET } as unknown as Api), hub, asked };
}
const line = (id: string, lifecycleState: string) => ({ id, active: true, metadata: { path: `/${id}`, host: 'h', flavor: null, lifecycleState } });
/** Holds the hub's answers back, which are made before, until the result is called. */
function held(hub: { hold: Promise<void> | null }): () => void {
  let release = () => {};
  hub.hold = new Promise((resolve) => {
    release = resolve;
  });
  return release;
}
const updated = (sessionId: string, data: object): HubEvent => ({ type: 'session-updated', sessionId, data: data as Record<string, unknown> });
const removed = (sessionId: string): HubEvent => ({ type: 'session-removed', sessionId });
const gone: HubEvent = { type: 'machine-updated', machineId: 'm', data: { active: false } };
/** Lets promises that are settled be noticed. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));
const seqs = () => conversationOf('a').messages.map(({ seq }) => seq);

beforeEach(() => {
  state.value = EMPTY;
  openSession.value = null;
});

test('the list and the archive stand beside each other', async () => {
  const { sync } = place(0);
  await sync.archive();
  await sync.list();
  assert.deepEqual(Object.keys(state.value.summaries).sort(), ['a', 'old']);
  await sync.archive();
  assert.deepEqual([Object.keys(state.value.summaries).sort(), state.value.list.status, state.value.archive.status], [['a', 'old'], 'ready', 'ready']);
});

test('what cannot be read says why, and what was read before stays', async () => {
  const { sync, hub } = place(3);
  hub.isAway = true;
  await Promise.all([sync.list(), sync.machines(), sync.session('a'), sync.conversation('a')]);
  const failed = { status: 'failed', error: 'The hub is away.' };
  assert.deepEqual([state.value.list, state.value.machinesRead, state.value.sessionErrors.a, conversationOf('a').reading], [failed, failed, { text: 'The hub is away.', isGone: false }, failed]);
  hub.isAway = false;
  await Promise.all([sync.list(), sync.machines(), sync.session('a'), sync.newer('a')]);
  assert.deepEqual([state.value.list.status, state.value.machinesRead.status, state.value.sessionErrors.a, seqs()], ['ready', 'ready', undefined, [1, 2, 3]]);
  hub.isAway = true;
  await Promise.all([sync.list(), sync.machines(), sync.session('a'), sync.newer('a')]);
  assert.deepEqual([state.value.list.status, state.value.sessionErrors.a, seqs()], ['ready', undefined, [1, 2, 3]]);
});

test('older messages come page by page until the beginning', async () => {
  const { sync } = place(130);
  await sync.conversation('a');
  assert.deepEqual([seqs()[0], seqs().length, conversationOf('a').hasOlder], [71, 60, true]);
  await sync.older('a');
  await sync.older('a');
  assert.deepEqual([seqs()[0], seqs().length, conversationOf('a').hasOlder], [1, 130, false]);
  await sync.older('a');
  assert.equal(seqs().length, 130);
});

test('catching up reads all pages after the newest', async () => {
  const { sync, hub } = place(2);
  await sync.conversation('a');
  hub.count = 450;
  await sync.newer('a');
  assert.deepEqual(seqs(), Array.from({ length: 450 }, (_, at) => at + 1));
});

test('a page that one large message fills does not end the catching up', async () => {
  const { sync, hub } = place(2);
  await sync.conversation('a');
  hub.count = 4;
  hub.largest = 1;
  await sync.newer('a');
  assert.deepEqual(seqs(), [1, 2, 3, 4]);
});

test('a history that was numbered anew is read from its end', async () => {
  const { sync, hub } = place(3);
  await sync.conversation('a');
  hub.prefix = 'merged';
  hub.count = 90;
  await sync.newer('a');
  assert.deepEqual([seqs()[0], seqs().at(-1), conversationOf('a').messages[0]?.id], [31, 90, 'merged31']);
});

test('the messages of the sessions that were on the screen last stay, and of the others what is not sent yet', async () => {
  const { sync } = place(3);
  const outgoing = (text: string, now: Outgoing['state']): Outgoing => ({ localId: text, text, attachments: [], createdAt: 0, state: now });
  const loaded = () => Object.entries(state.value.conversations).map(([id, { messages, outgoing }]) => [id, messages.length, outgoing.map(({ text }) => text).join()]);
  for (const id of ['s1', 's2', 's3', 's4', 's5', 's6', 's7']) {
    show(id);
    await sync.newer(id);
    if (id === 's1') changeConversation(id, (one) => ({ ...one, outgoing: [outgoing('sent', 'sent'), outgoing('waits', 'waiting')] }));
  }
  show('s8');
  assert.deepEqual(loaded(), [['s1', 0, 'waits'], ['s3', 3, ''], ['s4', 3, ''], ['s5', 3, ''], ['s6', 3, ''], ['s7', 3, '']]);
  show('s1');
  await sync.newer('s1');
  assert.deepEqual(loaded()[0], ['s1', 3, 'waits']);
});

test('a session that leaves the screen while its messages are read is not read to the end of its history', async () => {
  const { sync, hub, asked } = place(2);
  await sync.conversation('a');
  hub.count = 1000;
  const release = held(hub);
  const catching = sync.newer('a');
  await settle();
  changeConversation('a', unsentOf);
  asked.length = 0;
  release();
  await catching;
  assert.deepEqual(asked, []);
});

test('an older page that no longer joins on is not taken', async () => {
  const { sync, hub } = place(130);
  await sync.conversation('a');
  const release = held(hub);
  const reading = sync.older('a');
  await settle();
  changeConversation('a', (one) => ({ ...one, messages: one.messages.slice(-10) }));
  release();
  await reading;
  assert.deepEqual([seqs()[0], seqs().length], [121, 10]);
});

test('a message that comes while the first page is read is read after it', async () => {
  const { sync, hub } = place(2);
  const release = held(hub);
  const first = sync.conversation('a');
  hub.count = 3;
  const event = sync.hear({ type: 'message-received', sessionId: 'a', message: { id: 'm3', seq: 3, localId: null, content: 'x', createdAt: 0 } });
  release();
  await Promise.all([first, event]);
  assert.deepEqual(seqs(), [1, 2, 3]);
});

/** What is read, what events tell before the answer is here, and what is to be seen then. */
const OVERTAKEN: { name: string; read: (sync: Sync) => Promise<void>; events: HubEvent[]; seen: () => unknown; is: unknown }[] = [
  { name: 'a session that is deleted while the list is read', read: (sync) => sync.list(), events: [removed('a')], seen: () => Object.keys(state.value.summaries), is: [] },
  {
    name: 'a session that is added while the list is read',
    read: (sync) => sync.list(),
    events: [{ type: 'session-added', sessionId: 'b', data: line('b', 'running') }],
    seen: () => Object.keys(state.value.summaries),
    is: ['a', 'b'],
  },
  {
    name: 'a session that changes while the list is read for the first time',
    read: (sync) => sync.list(),
    events: [updated('a', { thinking: true })],
    seen: () => state.value.summaries.a?.thinking,
    is: true,
  },
  {
    name: 'a session that is resumed while the archive is read',
    read: (sync) => sync.archive(),
    events: [updated('old', { metadata: { path: '/old', host: 'h', lifecycleState: 'running' } })],
    seen: () => state.value.summaries.old?.metadata?.lifecycleState,
    is: 'running',
  },
  { name: 'a machine that goes while the machines are read', read: (sync) => sync.machines(), events: [gone], seen: () => state.value.machines, is: {} },
  {
    name: 'a session that is deleted while it is read',
    read: (sync) => sync.session('a'),
    events: [removed('a')],
    seen: () => [state.value.sessions.a, state.value.summaries.a, state.value.sessionErrors.a],
    is: [undefined, undefined, { text: 'This session was deleted.', isGone: true }],
  },
  {
    name: 'a session that changes while it is read for the first time',
    read: (sync) => sync.session('a'),
    events: [updated('a', { thinking: true }), updated('a', { permissionMode: 'plan' })],
    seen: () => [state.value.sessions.a?.thinking, state.value.sessions.a?.permissionMode, state.value.summaries.a?.permissionMode],
    is: [true, 'plan', 'plan'],
  },
];
for (const { name, read, events, seen, is } of OVERTAKEN) {
  test(`${name} is as the event has it, not the answer`, async () => {
    const { sync, hub } = place(0);
    for (const isFirst of [true, false]) {
      const release = held(hub);
      const reading = read(sync);
      await Promise.all(events.map((event) => sync.hear(event)));
      release();
      await reading;
      assert.deepEqual(seen(), is, isFirst ? 'read for the first time' : 'read again');
    }
  });
}

test('an answer counts more than what events told before it was asked for', async () => {
  const { sync } = place(0);
  await sync.list();
  await sync.hear(removed('a'));
  await sync.list();
  assert.deepEqual(Object.keys(state.value.summaries), ['a']);
});

test('a large value of which an event tells only the length while its session is read is read once more', async () => {
  const { sync, hub, asked } = place(0);
  await sync.session('a');
  const release = held(hub);
  const reading = sync.session('a');
  const told = sync.hear(updated('a', { metadataBytes: 5_000_000 }));
  release();
  await Promise.all([reading, told]);
  assert.equal(asked.length, 3);
});

test('what is asked for many times while it is read is read once more', async () => {
  const { sync, asked } = place(0);
  await Promise.all([sync.list(), sync.list(), sync.list(), sync.list()]);
  assert.equal(asked.length, 2);
});

test('after a gap everything is read again that is shown', async () => {
  const { sync, hub, asked } = place(2);
  await Promise.all([sync.list(), sync.machines(), sync.session('a'), sync.conversation('a')]);
  openSession.value = 'a';
  hub.count = 5;
  asked.length = 0;
  await sync.everything();
  assert.deepEqual(seqs(), [1, 2, 3, 4, 5]);
  assert.deepEqual(asked.sort(), ['/api/machines', '/api/sessions', '/api/sessions/{id}', '/api/sessions/{id}/messages {"limit":200,"afterSeq":1}']);
});
