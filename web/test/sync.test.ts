// Fetching from the hub, and events during a fetch.

import assert from 'node:assert/strict';
import { beforeEach, mock, test } from 'node:test';
import type { Api } from '../src/api/client.ts';
import type { HubEvent } from '../src/api/types.ts';
import { withoutSynced } from '../src/state/conversation.ts';
import { getConversation, openSessionId, setOpenSession, state, updateConversation } from '../src/state/store.ts';
import { Sync } from '../src/state/sync.ts';
import type { OutgoingMessage } from '../src/content/unstored-messages.ts';
import { EMPTY_STATE } from '../src/state/types.ts';
import { flushPromises } from './support/promises.ts';

interface Options {
  params?: { path?: { id: string }; query?: { beforeSeq?: number; afterSeq?: number; limit?: number; archived?: string; cursor?: string } };
}

/** A fake hub with one session of `count` messages. Its responses can be delayed. */
function setup(count: number) {
  const requests: string[] = [];
  const hub = {
    count,
    prefix: 'm',
    maxPageSize: Infinity,
    isUnavailable: false,
    delay: null as Promise<void> | null,
    pages: null as string[][] | null,
  };
  const messages = (from: number, to: number) =>
    Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => ({
      id: `${hub.prefix}${from + at}`,
      seq: from + at,
      localId: null,
      content: 'x',
      createdAt: 0,
    }));
  const respond = (path: string, { params: { query = {} } = {} }: Options): unknown => {
    if (path === '/api/sessions' && hub.pages) return listPage(hub.pages, query);
    if (path === '/api/sessions') return { sessions: query.archived ? [summary('old', 'archived')] : [summary('a', 'running')] };
    if (path === '/api/machines') return { machines: [{ id: 'm' }] };
    if (path === '/api/sessions/{id}')
      return { session: { ...summary('a', 'running'), metadata: { path: '/a', host: 'h' }, agentState: null } };
    const { afterSeq, beforeSeq = hub.count + 1, limit = 50 } = query;
    if (afterSeq !== undefined) {
      const to = Math.min(hub.count, afterSeq + Math.min(limit, hub.maxPageSize));
      return { messages: messages(afterSeq + 1, to), hasMore: to < hub.count };
    }
    const from = Math.max(1, beforeSeq - limit);
    return { messages: messages(from, beforeSeq - 1).toReversed(), hasMore: from > 1 };
  };
  const GET = async (path: string, options: Options = {}) => {
    const { query } = options.params ?? {};
    requests.push(query ? `${path} ${JSON.stringify(query)}` : path);
    const found = respond(path, options);
    await hub.delay;
    if (hub.isUnavailable)
      return { error: { error: 'The hub is unavailable.', code: 'hub_unavailable' }, response: new Response(null, { status: 503 }) };
    return { data: found, response: new Response() };
  };
  return { sync: new Sync({ GET } as unknown as Api), hub, requests };
}
/** A page of the list. Its cursor is the number of the next page. */
function listPage(pages: string[][], { cursor = '0', archived }: { cursor?: string; archived?: string }) {
  const next = Number(cursor) + 1;
  const sessions = (pages[Number(cursor)] ?? []).map((id) => summary(id, archived ? 'archived' : 'running'));
  return next < pages.length ? { sessions, nextCursor: String(next) } : { sessions };
}
const summary = (id: string, lifecycleState: string) => ({
  id,
  active: true,
  metadata: { path: `/${id}`, host: 'h', flavor: null, lifecycleState },
});
/** Delays the hub's responses until the returned function is called. A response has the content of the time of its request. */
function delayResponses(hub: { delay: Promise<void> | null }): () => void {
  let release = () => {};
  hub.delay = new Promise((resolve) => {
    release = resolve;
  });
  return release;
}
const updateEvent = (sessionId: string, data: object): HubEvent => ({
  type: 'session-updated',
  sessionId,
  data: data as Record<string, unknown>,
});
const removalEvent = (sessionId: string): HubEvent => ({ type: 'session-removed', sessionId });
const machineOffline: HubEvent = { type: 'machine-updated', machineId: 'm', data: { active: false } };
const seqs = () => getConversation('a').messages.map(({ seq }) => seq);

beforeEach(() => {
  state.value = EMPTY_STATE;
  openSessionId.value = null;
});

test('fetching the list keeps the archive, and the other way round', async () => {
  const { sync } = setup(0);
  await sync.fetchArchive();
  await sync.fetchSessions();
  assert.deepEqual(Object.keys(state.value.summaries).sort(), ['a', 'old']);
  await sync.fetchArchive();
  assert.deepEqual(
    [Object.keys(state.value.summaries).sort(), state.value.listLoad.status, state.value.archiveLoad.status],
    [['a', 'old'], 'ready', 'ready'],
  );
});

test('fetches all pages of the list and of the archive, and shows the first one at once', async () => {
  const { sync, hub, requests } = setup(0);
  hub.pages = [['a', 'b'], ['c'], ['d']];
  const listed = () => [state.value.listLoad.status, Object.keys(state.value.summaries).join('')];
  const release = delayResponses(hub);
  const fetching = sync.fetchSessions();
  await flushPromises();
  assert.deepEqual(listed(), ['loading', '']);
  const releaseRest = delayResponses(hub);
  release();
  await flushPromises();
  assert.deepEqual(listed(), ['ready', 'ab']);
  releaseRest();
  await fetching;
  assert.deepEqual(listed(), ['ready', 'abcd']);
  assert.deepEqual(requests, ['/api/sessions', '/api/sessions {"cursor":"1"}', '/api/sessions {"cursor":"2"}']);

  hub.pages = [['x'], ['y']];
  requests.length = 0;
  await sync.fetchArchive();
  assert.deepEqual([Object.keys(state.value.summaries).join(''), state.value.archiveLoad.status], ['abcdxy', 'ready']);
  assert.deepEqual(requests, ['/api/sessions {"archived":"only"}', '/api/sessions {"archived":"only","cursor":"1"}']);
});

test('a second fetch replaces the list when its last page has arrived', async () => {
  const { sync, hub } = setup(0);
  hub.pages = [['a'], ['b'], ['c']];
  await sync.fetchSessions();
  hub.pages = [['c'], ['a'], []];
  const seen = new Set<string>();
  const unsubscribe = state.subscribe(({ summaries }) => seen.add(Object.keys(summaries).sort().join('')));
  await sync.fetchSessions();
  unsubscribe();
  assert.deepEqual([...seen], ['abc', 'ac']);
});

test('a list whose last pages fail is an error, until a fetch succeeds', async () => {
  const { sync, hub } = setup(0);
  hub.pages = [['a'], ['b']];
  const unsubscribe = state.subscribe(({ summaries }) => {
    hub.isUnavailable = summaries.a !== undefined;
  });
  await sync.fetchSessions();
  unsubscribe();
  assert.deepEqual(state.value.listLoad, { status: 'failed', error: 'The hub is unavailable.' });
  hub.isUnavailable = false;
  await sync.fetchSessions();
  assert.deepEqual([state.value.listLoad.status, Object.keys(state.value.summaries)], ['ready', ['a', 'b']]);
});

test('fetches the list again if a session has moved between its pages', async () => {
  const { sync, hub } = setup(0);
  hub.pages = [['a'], ['b', 'moving']];
  let handled: Promise<void> | undefined;
  const unsubscribe = state.subscribe(({ summaries }) => {
    if (summaries.a === undefined || handled) return;
    hub.pages = [['moving', 'a'], ['b']];
    handled = sync.handleEvent(updateEvent('moving', { active: true }));
  });
  await sync.fetchSessions();
  unsubscribe();
  await handled;
  assert.deepEqual(Object.keys(state.value.summaries).sort(), ['a', 'b', 'moving']);
});

test('stores errors, and keeps data that was loaded before', async () => {
  const { sync, hub } = setup(3);
  hub.isUnavailable = true;
  await Promise.all([sync.fetchSessions(), sync.fetchMachines(), sync.fetchSession('a'), sync.fetchNewestMessages('a')]);
  const failed = { status: 'failed', error: 'The hub is unavailable.' };
  assert.deepEqual(
    [state.value.listLoad, state.value.machinesLoad, state.value.sessionErrors.a, getConversation('a').loadState],
    [failed, failed, { text: 'The hub is unavailable.', isGone: false }, failed],
  );
  hub.isUnavailable = false;
  await Promise.all([sync.fetchSessions(), sync.fetchMachines(), sync.fetchSession('a'), sync.fetchNewerMessages('a')]);
  assert.deepEqual(
    [state.value.listLoad.status, state.value.machinesLoad.status, state.value.sessionErrors.a, seqs()],
    ['ready', 'ready', undefined, [1, 2, 3]],
  );
  hub.isUnavailable = true;
  await Promise.all([sync.fetchSessions(), sync.fetchMachines(), sync.fetchSession('a'), sync.fetchNewerMessages('a')]);
  assert.deepEqual([state.value.listLoad.status, state.value.sessionErrors.a, seqs()], ['ready', undefined, [1, 2, 3]]);
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
  hub.prefix = 'merged';
  hub.count = 90;
  await sync.fetchNewerMessages('a');
  assert.deepEqual([seqs()[0], seqs().at(-1), getConversation('a').messages[0]?.id], [31, 90, 'merged31']);
});

test('keeps the messages of recently opened sessions, and only unsent ones of the others', async () => {
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
  updateConversation('a', withoutSynced);
  requests.length = 0;
  release();
  await fetching;
  assert.deepEqual(requests, []);
});

test('ignores an older page that no longer fits', async () => {
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

/** A fetch, the events that arrive before its response, and the expected state. */
const RACES: { name: string; fetch: (sync: Sync) => Promise<void>; events: HubEvent[]; actual: () => unknown; expected: unknown }[] = [
  {
    name: 'a session deleted while the list is fetched',
    fetch: (sync) => sync.fetchSessions(),
    events: [removalEvent('a')],
    actual: () => Object.keys(state.value.summaries),
    expected: [],
  },
  {
    name: 'a session added while the list is fetched',
    fetch: (sync) => sync.fetchSessions(),
    events: [{ type: 'session-added', sessionId: 'b', data: summary('b', 'running') }],
    actual: () => Object.keys(state.value.summaries),
    expected: ['a', 'b'],
  },
  {
    name: 'a session updated while the list is fetched',
    fetch: (sync) => sync.fetchSessions(),
    events: [updateEvent('a', { thinking: true })],
    actual: () => state.value.summaries.a?.thinking,
    expected: true,
  },
  {
    name: 'a session resumed while the archive is fetched',
    fetch: (sync) => sync.fetchArchive(),
    events: [updateEvent('old', { metadata: { path: '/old', host: 'h', lifecycleState: 'running' } })],
    actual: () => state.value.summaries.old?.metadata?.lifecycleState,
    expected: 'running',
  },
  {
    name: 'a machine that goes offline while the machines are fetched',
    fetch: (sync) => sync.fetchMachines(),
    events: [machineOffline],
    actual: () => state.value.machines,
    expected: {},
  },
  {
    name: 'a session deleted while it is fetched',
    fetch: (sync) => sync.fetchSession('a'),
    events: [removalEvent('a')],
    actual: () => [state.value.sessions.a, state.value.summaries.a, state.value.sessionErrors.a],
    expected: [undefined, undefined, { text: 'This session was deleted.', isGone: true }],
  },
  {
    name: 'a session updated while it is fetched',
    fetch: (sync) => sync.fetchSession('a'),
    events: [updateEvent('a', { thinking: true }), updateEvent('a', { permissionMode: 'plan' })],
    actual: () => [state.value.sessions.a?.thinking, state.value.sessions.a?.permissionMode, state.value.summaries.a?.permissionMode],
    expected: [true, 'plan', 'plan'],
  },
];
for (const { name, fetch, events, actual, expected } of RACES) {
  test(`the event wins over the response: ${name}`, async () => {
    const { sync, hub } = setup(0);
    for (const isFirst of [true, false]) {
      const release = delayResponses(hub);
      const fetching = fetch(sync);
      await Promise.all(events.map((event) => sync.handleEvent(event)));
      release();
      await fetching;
      assert.deepEqual(actual(), expected, isFirst ? 'first fetch' : 'second fetch');
    }
  });
}

test('a response wins over events before its request', async () => {
  const { sync } = setup(0);
  await sync.fetchSessions();
  await sync.handleEvent(removalEvent('a'));
  await sync.fetchSessions();
  assert.deepEqual(Object.keys(state.value.summaries), ['a']);
});

test('fetches a session again if an event omits a large value during the fetch', async () => {
  const { sync, hub, requests } = setup(0);
  await sync.fetchSession('a');
  const release = delayResponses(hub);
  const fetching = sync.fetchSession('a');
  const handled = sync.handleEvent(updateEvent('a', { metadataBytes: 5_000_000 }));
  release();
  await Promise.all([fetching, handled]);
  assert.equal(requests.length, 3);
});

test('coalesces requests during a fetch into one repetition', async () => {
  const { sync, requests } = setup(0);
  await Promise.all([sync.fetchSessions(), sync.fetchSessions(), sync.fetchSessions(), sync.fetchSessions()]);
  assert.equal(requests.length, 2);
});

test('after a gap, fetches all shown resources again', async () => {
  const { sync, hub, requests } = setup(2);
  await Promise.all([sync.fetchSessions(), sync.fetchMachines(), sync.fetchSession('a'), sync.fetchNewestMessages('a')]);
  openSessionId.value = 'a';
  hub.count = 5;
  requests.length = 0;
  await sync.refetchShown();
  assert.deepEqual(seqs(), [1, 2, 3, 4, 5]);
  assert.deepEqual(requests.sort(), [
    '/api/config',
    '/api/machines',
    '/api/sessions',
    '/api/sessions/{id}',
    '/api/sessions/{id}/messages {"limit":200,"afterSeq":1,"excerpts":"true"}',
  ]);
});

test('drops a live text without a delta for 30 s, and all live texts when the connection is lost', async (t) => {
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
