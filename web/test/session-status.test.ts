// What a session does, in words: for rows, the header, filters and the search.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HubError } from '../src/api/errors.ts';
import type { SessionSummary } from '../src/api/types.ts';
import { SeenReports } from '../src/state/seen.ts';
import { describeStatus, FILTERS, matchesFilter, STALLED_MS, searchWords } from '../src/state/session-status.ts';
import { hasEnded, matchesQuery, mergeSummary } from '../src/state/sessions.ts';
import { flushPromises } from './support/promises.ts';

const NOW = Date.UTC(2026, 10, 26, 14, 6);
const minutesAgo = (count: number) => NOW - count * 60_000;

const summary = (more: Partial<SessionSummary> = {}): SessionSummary => ({
  id: 'a',
  active: true,
  thinking: false,
  activeAt: NOW,
  updatedAt: minutesAgo(60),
  createdAt: 1,
  metadata: { path: '/code/a', host: 'laptop', flavor: null },
  todoProgress: null,
  pendingRequestsCount: 0,
  ...more,
});
const withState = (lifecycleState: string) => ({ path: '/code/a', host: 'laptop', flavor: null, lifecycleState });
const describe = (more: Partial<SessionSummary>, isMachineOnline = false) => {
  const session = summary(more);
  const formatTime = (time: number) => new Date(time).toISOString().slice(11, 16);
  const { text, detail, idle } = describeStatus(session, session.pendingRequestsCount, { now: NOW, formatTime, isMachineOnline });
  return [text, detail, idle].filter((part) => part !== undefined).join(' | ');
};

test('says how long an agent has been working, and on what', () => {
  assert.equal(describe({ thinking: true, thinkingAt: minutesAgo(4), activity: 'npm test' }), 'working 4 min | npm test');
  assert.equal(describe({ thinking: true, thinkingAt: NOW - 10_000 }), 'working');
  assert.equal(describe({ thinking: true, updatedAt: NOW }), 'working', 'an older hub sends no time');
  assert.equal(describe({ pendingRequestsCount: 2, thinking: true }), '2 requests pending');
});

test('marks a working agent without a message or an event for ten minutes', () => {
  const working = { thinking: true, thinkingAt: minutesAgo(30) };
  assert.equal(describe({ ...working, lastMessageAt: minutesAgo(12) }), 'no sign of progress for 12 min');
  assert.equal(describe({ ...working, lastMessageAt: NOW - STALLED_MS + 1 }), 'working 30 min');
  assert.equal(describe({ ...working, lastMessageAt: minutesAgo(12), updatedAt: minutesAgo(1) }), 'working 30 min');
});

test('a change of the activity is a sign of progress, even without a message', () => {
  const working = { thinking: true, thinkingAt: minutesAgo(30), lastMessageAt: minutesAgo(20), activity: 'npm test' };
  assert.equal(describe({ ...working, activityAt: minutesAgo(2) }), 'working 30 min | npm test');
  assert.equal(describe({ ...working, activityAt: minutesAgo(11) }), 'no sign of progress for 11 min | npm test');
});

test('says for how long an agent has been idle, and where its terminal is', () => {
  assert.equal(describe({ thinkingAt: minutesAgo(130), lastMessageAt: minutesAgo(130) }), 'ready | idle 2 h');
  assert.equal(describe({ thinkingAt: minutesAgo(130) }), 'ready', 'a session without messages was never busy');
  assert.equal(describe({ metadata: withState('paused') }), 'in the terminal on laptop');
  assert.equal(describe({ metadata: withState('failed') }), 'failed');
});

test('says “ended” only for a session that ended', () => {
  const inactive = { active: false, activeAt: minutesAgo(4), updatedAt: minutesAgo(3) };
  assert.equal(describe(inactive), 'laptop offline since 14:02');
  assert.equal(describe(inactive, true), 'not connected since 14:02', 'the machine is online, only the session is not');
  assert.equal(describe({ ...inactive, endedAt: minutesAgo(3) }), 'ended');
  assert.equal(describe({ ...inactive, metadata: withState('archived') }), 'archived');
  assert.equal(hasEnded(summary({ ...inactive, endedAt: minutesAgo(3) })), true);
});

test('an active session whose CLI has lost its connection is neither ready nor working', () => {
  const lost = { disconnected: true, activeAt: minutesAgo(1) };
  assert.equal(describe(lost, true), 'not connected since 14:05');
  assert.equal(describe({ ...lost, thinking: true, activity: 'npm test' }, true), 'not connected since 14:05');
  assert.equal(describe({ ...lost, pendingRequestsCount: 1 }, true), 'not connected since 14:05', 'nobody receives an answer');
  const back = mergeSummary(summary(lost), { active: true, disconnected: false });
  assert.equal(describe(back), 'ready');
});

test('filters sessions by what they do', () => {
  const filtersOf = (more: Partial<SessionSummary>) => FILTERS.filter((filter) => matchesFilter(summary(more), filter, NOW)).join();
  assert.equal(filtersOf({ pendingRequestsCount: 1 }), 'waiting');
  assert.equal(filtersOf({ unseenSince: 1 }), 'waiting,ready');
  assert.equal(filtersOf({ thinking: true, updatedAt: minutesAgo(60) }), 'working');
  assert.equal(filtersOf({ metadata: withState('paused') }), 'ready');
  assert.equal(filtersOf({ active: false }), 'ended');
});

test('the search finds sessions by their state', () => {
  const finds = (query: string, more: Partial<SessionSummary>) => matchesQuery(summary(more), query, searchWords(summary(more), NOW));
  assert.ok(finds('pending', { pendingRequestsCount: 1 }) && finds('waiting', { pendingRequestsCount: 1 }));
  assert.ok(finds('Waiting', { unseenSince: 1 }) && finds('working', { thinking: true }) && finds('ended', { active: false, endedAt: 1 }));
  assert.ok(finds('failed laptop', { metadata: withState('failed') }) && finds('pinned', { pinned: true }) && finds('ready', {}));
  assert.ok(!finds('pending', {}) && !finds('pinned', {}) && !finds('ready', { thinking: true }));
});

test('reports that the user has seen the open session: once for each change, and again if the report failed', async () => {
  const reports: [string, number][] = [];
  let isReachable = true;
  let status = 503;
  const seen = new SeenReports(async (id, at) => {
    reports.push([id, at]);
    if (!isReachable) throw new HubError(status, 'x', 'The report failed.');
  });
  const waiting = (unseenSince?: number) => ({ a: summary(unseenSince === undefined ? {} : { unseenSince }) });
  seen.update(null, waiting(1));
  seen.update('a', waiting());
  assert.deepEqual(reports, []);
  seen.update('a', waiting(1));
  seen.update('a', waiting(1));
  assert.deepEqual(reports, [['a', 1]]);
  isReachable = false;
  seen.update('a', waiting(2));
  await flushPromises();
  isReachable = true;
  seen.update('a', waiting(2));
  seen.update('a', waiting(2));
  assert.deepEqual(reports, [
    ['a', 1],
    ['a', 2],
    ['a', 2],
  ]);
  [isReachable, status] = [false, 404];
  seen.update('a', waiting(3));
  await flushPromises();
  seen.update('a', waiting(3));
  assert.equal(reports.length, 4, 'a refused report is not repeated');
});
