// Fetching from the hub, and events during a fetch.

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { HubEvent, SessionSummary } from '../src/api/types.ts';
import { getConversation, inboxItems, openSessionId, patchState, setOpenSession, state, waitingCount } from '../src/state/store.ts';
import type { Sync } from '../src/state/sync.ts';
import { EMPTY_STATE } from '../src/state/types.ts';
import { delayResponses, seqs, setup, summary, updateEvent } from './support/fake-hub.ts';
import { flushPromises } from './support/promises.ts';

const removalEvent = (sessionId: string): HubEvent => ({ type: 'session-removed', sessionId });
const machineOffline: HubEvent = { type: 'machine-updated', machineId: 'm', data: { active: false } };

beforeEach(() => {
  state.value = EMPTY_STATE;
  openSessionId.value = null;
});

test('fetching the list keeps the archive, and fetching the archive keeps the list', async () => {
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

test('fetches all pages of the list and of the archive, and shows the first page at once', async () => {
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

test('the list has an error if one of its pages fails, until a fetch succeeds', async () => {
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

test('a session is gone only if the hub says so, and not a proxy', async () => {
  for (const isFromHub of [false, true]) {
    const { sync, hub } = setup(3);
    hub.failures = { '/api/sessions/{id}': 404 };
    hub.isFromHub = isFromHub;
    await sync.fetchSession('a');
    assert.equal(state.value.sessionErrors.a?.isGone, isFromHub);
  }
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
    '/api/inbox {"limit":200,"cursor":"2"}',
    '/api/inbox {"limit":200,"cursor":"3"}',
    '/api/inbox {"limit":200}',
    '/api/machines',
    '/api/sessions',
    '/api/sessions/{id}',
    '/api/sessions/{id}/messages {"limit":200,"afterSeq":1,"excerpts":"true"}',
  ]);
});

test('reads all pages of the inbox, and keeps an event that arrives during the read', async () => {
  const { sync, hub } = setup(1);
  await sync.fetchSessions();
  let release = () => {};
  hub.delay = new Promise<void>((resolve) => {
    release = resolve;
  });
  const read = sync.fetchInbox();
  const requests = { 5: { tool: 'Bash', arguments: {}, createdAt: 5 } };
  await sync.handleEvent({
    type: 'session-updated',
    sessionId: 'a',
    data: { agentState: { requests, completedRequests: {} } },
  } as unknown as HubEvent);
  release();
  await read;
  assert.deepEqual(Object.keys(state.value.inbox.requests.a ?? {}), ['5'], 'the event is newer than the pages');
  hub.delay = null;
  await sync.fetchInbox();
  assert.deepEqual(Object.keys(state.value.inbox.requests.a ?? {}), ['1', '2', '3', '4', '5']);
});

test('with a hub that has no inbox, the list of sessions says which sessions wait', async () => {
  const { sync, hub } = setup(1);
  await sync.fetchSessions();
  hub.isUnavailable = true;
  await sync.fetchInbox();
  patchState({ summaries: { a: { ...(state.value.summaries.a as SessionSummary), active: true, pendingRequestsCount: 2 } } });
  assert.deepEqual(
    inboxItems.value.map((item) => [item.kind, item.kind === 'unloaded-requests' && item.count]),
    [['unloaded-requests', 2]],
  );
  assert.equal(waitingCount.value, 2);
});

test('an event that omits a large agent state fetches the inbox again', async () => {
  const { sync, requests } = setup(1);
  await sync.fetchSessions();
  await sync.fetchInbox();
  requests.length = 0;
  await sync.handleEvent({ type: 'session-updated', sessionId: 'a', data: { agentStateBytes: 9 } } as unknown as HubEvent);
  assert.ok(requests.includes('/api/inbox {"limit":200}'));
});

/** Fetches what a page with an open session fetches. `connect` is called before the first connection. */
async function openPage(sync: Sync, connect: () => void): Promise<void> {
  setOpenSession('a');
  const opening = [sync.fetchConfig(), sync.fetchNewerMessages('a'), sync.fetchSession('a')];
  await flushPromises();
  connect();
  await Promise.all([...opening, sync.refetchShown()]);
}

test('a page whose stream starts before the first requests are sent reads each resource once', async () => {
  let start = () => {};
  const { sync, requests } = setup(3, new Promise((resolve) => (start = resolve)));
  await openPage(sync, () => {
    assert.deepEqual(requests, []);
    start();
  });
  assert.deepEqual(requests.toSorted(), [...new Set(requests)].sort());
  assert.deepEqual([...new Set(requests.map((request) => request.split(' ')[0]))].sort(), [
    '/api/config',
    '/api/inbox',
    '/api/sessions',
    '/api/sessions/{id}',
    '/api/sessions/{id}/messages',
  ]);
  assert.deepEqual(seqs(), [1, 2, 3]);
});

test('requests that were sent before the stream started are repeated, so that no event in between is lost', async () => {
  let start = () => {};
  const { sync, hub, requests } = setup(3, new Promise((resolve) => (start = resolve)));
  // The stream does not start in time.
  start();
  await openPage(sync, () => {
    hub.count = 4;
  });
  assert.deepEqual(seqs(), [1, 2, 3, 4]);
  assert.equal(requests.filter((request) => request === '/api/sessions/{id}').length, 2);
});
