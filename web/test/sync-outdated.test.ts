// Data that is shown although its last fetch has failed.

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { Database } from '../src/state/database.ts';
import { isCatchingUp, isConfigSettled, openSessionId, outdatedResources, setOpenSession, state } from '../src/state/store.ts';
import { saveList, showStoredList } from '../src/state/stored-list.ts';
import type { Sync } from '../src/state/sync.ts';
import { EMPTY_STATE } from '../src/state/types.ts';
import { seqs, setup, updateEvent } from './support/fake-hub.ts';
import { flushPromises } from './support/promises.ts';

beforeEach(() => {
  state.value = EMPTY_STATE;
  openSessionId.value = null;
});

const outdated = () => [...outdatedResources.value.keys()].sort();

/** Loads everything that the page of the session `a` shows. */
async function load(sync: Sync): Promise<void> {
  setOpenSession('a');
  await Promise.all([sync.fetchSession('a'), sync.fetchNewerMessages('a'), sync.fetchMachines(), sync.fetchArchive()]);
  await sync.refetchShown();
}

test('after a gap, each fetch that fails is repeated until it succeeds, and the page is catching up until then', async () => {
  const { sync, hub, elapse, timers } = setup(2);
  await load(sync);
  assert.deepEqual([isCatchingUp.value, timers], [false, []]);
  Object.assign(hub, { isUnavailable: true, count: 4, pages: [['a', 'b']] });
  await sync.refetchShown();
  const all = ['archiveLoad', 'config', 'inbox', 'listLoad', 'machines', 'messages a', 'session a'];
  assert.deepEqual([outdated(), isCatchingUp.value, seqs()], [all, true, [1, 2]]);
  await elapse();
  assert.deepEqual(outdated(), all);
  hub.isUnavailable = false;
  hub.failures = { '/api/sessions/{id}/messages': 503 };
  await elapse();
  assert.deepEqual([outdated(), isCatchingUp.value, seqs()], [['messages a'], true, [1, 2]]);
  assert.deepEqual(Object.keys(state.value.summaries).sort(), ['a', 'b']);
  hub.failures = {};
  await elapse();
  assert.deepEqual([outdated(), isCatchingUp.value, seqs(), timers], [[], false, [1, 2, 3, 4], []]);
});

test('the pauses grow up to 30 s, and begin again after a success', async () => {
  const { sync, hub, elapse } = setup(1);
  await load(sync);
  const failAgain = async () => {
    hub.failures = { '/api/sessions': 503 };
    await sync.fetchSessions();
  };
  const inRange = (ms: number, mean: number) => assert.ok(ms >= 0.75 * mean && ms <= 1.25 * mean, `${ms} instead of about ${mean}`);
  await failAgain();
  for (const mean of [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]) inRange(await elapse(), mean);
  hub.failures = {};
  await elapse();
  await failAgain();
  inRange(await elapse(), 1000);
});

test('a heartbeat repeats the failed fetches at once, and fetches nothing if none has failed', async () => {
  const { sync, hub, requests } = setup(1);
  await load(sync);
  hub.failures = { '/api/inbox': 503 };
  await sync.refetchShown();
  assert.deepEqual(outdated(), ['inbox']);
  hub.failures = {};
  await sync.repeatOutdated();
  assert.deepEqual(outdated(), []);
  requests.length = 0;
  await sync.repeatOutdated();
  assert.deepEqual(requests, []);
});

test('a fetch that an event makes necessary is repeated, too', async () => {
  const { sync, hub, elapse } = setup(1);
  await load(sync);
  hub.failures = { '/api/sessions/{id}': 502, '/api/sessions/{id}/held-messages': 503 };
  await sync.handleEvent(updateEvent('a', { agentStateBytes: 9, heldMessagesCount: 1 }));
  assert.deepEqual(outdated(), ['held messages a', 'session a']);
  hub.failures = {};
  await elapse();
  assert.deepEqual(outdated(), []);
});

test('a fetch that the hub refuses for good is not repeated: an older hub may lack the route', async () => {
  const { sync, hub, timers } = setup(1);
  await load(sync);
  hub.failures = { '/api/inbox': 404, '/api/sessions/{id}/messages': 403 };
  await sync.refetchShown();
  assert.deepEqual([outdated(), timers], [[], []]);
});

test('a first fetch that fails shows its error, and is not repeated behind the error', async () => {
  const { sync, hub, timers } = setup(1);
  hub.isUnavailable = true;
  setOpenSession('a');
  await Promise.all([sync.refetchShown(), sync.fetchMachines()]);
  const { listLoad, machinesLoad, configLoad, sessionErrors } = state.value;
  assert.deepEqual(
    [listLoad.status, machinesLoad.status, configLoad.status, sessionErrors.a?.isGone],
    ['failed', 'failed', 'failed', false],
  );
  assert.deepEqual([outdated(), timers], [[], []]);
});

test('a session of the list that is opened without the hub takes messages, and is fetched again when the hub can be reached', async () => {
  const { sync, hub, elapse } = setup(1);
  await sync.fetchSessions();
  setOpenSession('a');
  hub.failures = { '/api/sessions/{id}': 0 };
  await sync.fetchSession('a');
  const { sessions, sessionErrors, storedSessions } = state.value;
  assert.deepEqual([sessions.a?.metadata?.path, sessions.a?.thinking, sessionErrors.a], ['/a', false, undefined]);
  assert.ok((storedSessions.a ?? 0) > 0, 'the time of the list');
  assert.deepEqual(outdated(), ['session a']);
  hub.failures = {};
  await elapse();
  assert.deepEqual([outdated(), state.value.storedSessions.a], [[], undefined]);
});

test('a session that is in no list has an error if it is opened without the hub', async () => {
  const { sync, hub } = setup(1);
  hub.failures = { '/api/sessions/{id}': 0 };
  setOpenSession('a');
  await sync.fetchSession('a');
  assert.deepEqual(state.value.sessionErrors.a, { text: 'The hub cannot be reached.', isGone: false });
});

test('a second fetch of the configuration does not hide the composer, which was shown without the configuration', async () => {
  const { sync, hub } = setup(1);
  hub.failures = { '/api/config': 503 };
  await sync.fetchConfig();
  assert.equal(isConfigSettled.value, true);
  hub.failures = {};
  const fetching = sync.fetchConfig();
  assert.equal(isConfigSettled.value, true);
  await fetching;
  assert.equal(state.value.configLoad.status, 'ready');
});

test('a session that was closed is no longer out of date: it is fetched again when it is opened', async () => {
  const { sync, hub, requests, elapse } = setup(1);
  await load(sync);
  hub.failures = { '/api/sessions/{id}': 503, '/api/sessions/{id}/messages': 503 };
  await sync.refetchShown();
  assert.deepEqual(outdated(), ['messages a', 'session a']);
  openSessionId.value = null;
  requests.length = 0;
  await elapse();
  assert.deepEqual([outdated(), requests], [[], []]);
});

test('a list that is out of date is not stored as the list of now', async () => {
  const { sync, hub, elapse } = setup(1);
  const stored: unknown[] = [];
  const database = Promise.resolve({ put: async (...record: unknown[]) => stored.push(record) } as unknown as Database);
  await load(sync);
  hub.failures = { '/api/sessions': 503 };
  await sync.refetchShown();
  assert.deepEqual([await saveList(database), stored], [false, []]);
  hub.failures = {};
  await elapse();
  await flushPromises();
  assert.deepEqual([await saveList(database), stored.length], [true, 1]);
});

test('a list is stored with its inbox, also before the inbox has arrived: a later inbox would move the list', async () => {
  const { sync, hub } = setup(1);
  const records: { inbox?: object }[] = [];
  const put = async (_kind: string, _id: string, record: { inbox?: object }) => records.push(record);
  const database = Promise.resolve({ put, get: async () => records.at(-1) } as unknown as Database);
  await sync.fetchSessions();
  assert.deepEqual([await saveList(database), records], [false, []]);
  await sync.fetchInbox();
  assert.equal(await saveList(database), true);
  state.value = EMPTY_STATE;
  await showStoredList(database);
  await sync.fetchSessions();
  assert.equal(await saveList(database), true);
  assert.deepEqual(records[1]?.inbox, records[0]?.inbox);
  assert.notEqual(records[1]?.inbox, undefined);
  // A hub without an inbox.
  state.value = EMPTY_STATE;
  hub.failures = { '/api/inbox': 404 };
  await Promise.all([sync.fetchSessions(), sync.fetchInbox()]);
  assert.deepEqual([await saveList(database), records[2]?.inbox], [true, undefined]);
});
