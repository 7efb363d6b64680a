// The inbox: what waits, in which order, and what happened to items that no longer wait.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HubEvent, PendingRequest, SessionSummary } from '../src/api/types.ts';
import {
  describeDeparture,
  EMPTY_INBOX,
  groupShown,
  type Inbox,
  type InboxItem,
  LEAVE_MS,
  listInboxItems,
  mergeRequests,
  readItems,
  reduceInbox,
  requestKey,
  type ShownItem,
  updateShown,
} from '../src/state/inbox.ts';
import { pluck } from './support/pluck.ts';

const NOW = Date.UTC(2026, 10, 26);
const minutesAgo = (count: number) => NOW - count * 60_000;

const summary = (id: string, more: Partial<SessionSummary> = {}): SessionSummary => ({
  id,
  active: true,
  thinking: false,
  activeAt: NOW,
  updatedAt: NOW,
  createdAt: 1,
  metadata: { path: `/code/${id}`, host: 'laptop', flavor: null },
  todoProgress: null,
  pendingRequestsCount: 0,
  ...more,
});
const request = (createdAt: number, command = 'ls'): PendingRequest => ({ tool: 'Bash', arguments: { command }, createdAt });
const stateEvent = (sessionId: string, requests: object, completedRequests: object = {}) =>
  ({ type: 'session-updated', sessionId, data: { agentState: { requests, completedRequests } } }) as unknown as HubEvent;
const loaded = (inbox: Partial<Inbox> = {}): Inbox => ({ ...EMPTY_INBOX, load: { status: 'ready' }, ...inbox });
const all = (...summaries: SessionSummary[]) => Object.fromEntries(summaries.map((each) => [each.id, each]));
const keysOf = (items: readonly InboxItem[]) => items.map(({ key }) => key);

test('lists requests, ready and failed sessions, oldest first', () => {
  const { requests, errors } = readItems([
    { kind: 'request', since: minutesAgo(3), session: { id: 'a' }, requestId: 'r1', request: request(minutesAgo(3)) },
    { kind: 'failed', since: minutesAgo(2), session: { id: 'c' }, error: 'The agent is not installed.' },
    { kind: 'request', since: minutesAgo(1), session: { id: 'a' }, requestId: 'r2', request: request(minutesAgo(1)) },
  ]);
  const summaries = all(
    summary('a', { pendingRequestsCount: 2 }),
    summary('b', { unseenSince: minutesAgo(9) }),
    summary('c', { unseenSince: minutesAgo(2), metadata: { path: '/c', host: 'h', flavor: null, lifecycleState: 'failed' } }),
  );
  const items = listInboxItems(loaded({ requests, errors }), summaries, null);
  assert.deepEqual(keysOf(items), ['ready b', requestKey('a', 'r1'), 'failed c', requestKey('a', 'r2')]);
  assert.equal(items[2]?.kind === 'failed' && items[2].error, 'The agent is not installed.');
  assert.deepEqual(
    keysOf(listInboxItems(loaded(), summaries, 'b')),
    ['failed c', 'requests a'],
    'a session in view is not listed as ready',
  );
});

test('leaves out archived sessions, and requests that nobody can answer', () => {
  const requests = { a: { r: { since: 1, request: request(1) } }, b: { r: { since: 1, request: request(1) } } };
  const archived = { path: '/b', host: 'h', flavor: null, lifecycleState: 'archived' };
  const summaries = all(
    summary('a', { active: false, pendingRequestsCount: 1 }),
    summary('b', { pendingRequestsCount: 1, metadata: archived }),
  );
  assert.deepEqual(listInboxItems(loaded({ requests }), summaries, null), []);
  assert.deepEqual(listInboxItems({ ...loaded({ requests }), load: { status: 'loading' } }, all(summary('a')), null), []);
});

test('events add requests, and record the outcomes of requests that no longer wait', () => {
  const [first, second] = [request(minutesAgo(2)), request(minutesAgo(1))];
  const asked = reduceInbox(loaded(), stateEvent('a', { r1: first, r2: second, r3: first }), NOW);
  assert.deepEqual(Object.keys(asked.requests.a ?? {}), ['r1', 'r2', 'r3']);
  const decided = stateEvent('a', { r3: first }, { r1: { ...first, status: 'approved' }, r2: { ...second, status: 'denied' } });
  const answered = reduceInbox(asked, decided, NOW);
  assert.deepEqual(
    [Object.keys(answered.requests.a ?? {}), answered.outcomes],
    [['r3'], { [requestKey('a', 'r1')]: 'approved', [requestKey('a', 'r2')]: 'denied' }],
  );
  assert.deepEqual(reduceInbox(answered, decided, NOW), answered, 'the same event changes nothing');
  const withdrawn = reduceInbox(answered, stateEvent('a', {}), NOW);
  assert.deepEqual([withdrawn.requests, withdrawn.outcomes[requestKey('a', 'r3')]], [{}, 'canceled']);
  const removed = reduceInbox(asked, { type: 'session-removed', sessionId: 'a' } as HubEvent, NOW);
  assert.deepEqual(removed.requests, {});
});

test('a request without a plausible time waits since this page received it', () => {
  const asked = reduceInbox(
    loaded(),
    stateEvent('a', { tooOld: request(1), inFuture: request(NOW + 3_600_000), plausible: request(minutesAgo(5)) }),
    NOW,
  );
  const again = reduceInbox(
    asked,
    stateEvent('a', { tooOld: request(1), inFuture: request(1), plausible: request(minutesAgo(5)) }),
    NOW + 9_000,
  );
  assert.deepEqual(pluck(Object.values(again.requests.a ?? {}), 'since'), [NOW, NOW, minutesAgo(5)]);
});

test('tolerates the invalid requests and errors of a CLI', () => {
  const asked = reduceInbox(loaded(), stateEvent('a', { r1: 'text', r2: { tool: 7, createdAt: 'x' } }), NOW);
  assert.deepEqual(asked.requests.a, { r2: { since: NOW, request: {} } });
  const failed = { type: 'session-updated', sessionId: 'a', data: { metadata: { lifecycleState: 'failed', agentError: 7 } } };
  assert.deepEqual(reduceInbox(loaded(), failed as unknown as HubEvent, NOW), loaded());
  assert.deepEqual(readItems([{ kind: 'request', since: 1, session: { id: 'a' }, requestId: 'r', request: 'text' }]).requests, {
    a: { r: { since: 1, request: {} } },
  });
});

test('the next page of the inbox does not replace requests that events have updated', () => {
  const [known, added] = [
    { since: 2, request: request(2, 'new') },
    { since: 1, request: request(1, 'old') },
  ];
  assert.deepEqual(mergeRequests({ a: { r1: added, r2: added } }, { a: { r1: known }, b: { r3: known } }), {
    a: { r1: known, r2: added },
    b: { r3: known },
  });
});

test('an item keeps its place, and stays shown for a moment when it no longer waits; new items come last', () => {
  const items = (...ids: [string, number][]): InboxItem[] =>
    ids.map(([id, since]) => ({ kind: 'ready', key: id, since, session: summary(id) }));
  const keys = (shown: readonly ShownItem[]) => shown.map(({ item, leftAt }) => (leftAt === null ? item.key : `${item.key} left`));
  const idle = { isInUse: false, holdsNew: false };
  const first = updateShown([], items(['b', 2], ['c', 3]), NOW, idle);
  const second = updateShown(first, items(['a', 1], ['c', 3]), NOW, idle);
  assert.deepEqual(keys(second), ['b left', 'c', 'a']);
  assert.deepEqual(keys(updateShown(second, items(['a', 1], ['c', 3]), NOW + LEAVE_MS - 1, idle)), ['b left', 'c', 'a']);
  const touched = updateShown(second, items(['c', 3], ['d', 4]), NOW + LEAVE_MS, { isInUse: true, holdsNew: true });
  assert.deepEqual(keys(touched), ['b left', 'c', 'a left'], 'nothing moves while the list is touched');
  assert.deepEqual(keys(updateShown(touched, items(['c', 3], ['d', 4]), NOW + 2 * LEAVE_MS, idle)), ['c', 'd']);
  assert.deepEqual(keys(updateShown(second, items(['b', 2]), NOW, idle)), ['b', 'c left', 'a left'], 'an item may wait again');
});

test('groups items by session, at the place of the oldest item', () => {
  const item = (id: string, number: number): ShownItem => ({
    item: { kind: 'unloaded-requests', key: `${id}${number}`, since: number, session: summary(id), count: 1 },
    leftAt: null,
  });
  assert.deepEqual(
    groupShown([item('a', 1), item('b', 2), item('a', 3)]).map(({ id, items }) => [id, items.map(({ item: { key } }) => key)]),
    [
      ['a', ['a1', 'a3']],
      ['b', ['b2']],
    ],
  );
});

test('says why an item no longer waits', () => {
  const session = summary('a');
  const asked: InboxItem = { kind: 'request', key: 'k', since: 1, session, requestId: 'r', request: request(1) };
  const ready: InboxItem = { kind: 'ready', key: 'k', since: 1, session };
  assert.equal(describeDeparture(asked, 'approved', true, session), 'Approved');
  assert.equal(describeDeparture(asked, 'denied', true, session), 'Denied');
  assert.equal(describeDeparture(asked, 'approved', false, session), 'Answered on another device');
  assert.equal(describeDeparture(asked, 'canceled', true, session), 'Withdrawn by the agent');
  assert.equal(describeDeparture(asked, undefined, false, summary('a', { active: false })), 'No longer connected');
  assert.equal(describeDeparture(asked, undefined, false, undefined), 'The session was deleted');
  assert.equal(describeDeparture(ready, undefined, true, session), 'Dismissed');
  assert.equal(describeDeparture(ready, undefined, false, session), 'Seen');
  assert.equal(describeDeparture(ready, undefined, false, summary('a', { thinking: true })), 'Works again');
});
