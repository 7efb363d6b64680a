// The rows of a conversation: days, times, new messages, and folded turns.

process.env.TZ = 'Europe/Berlin';

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildRows, describeDay, reuseItems, startOfDay } from '../src/content/rows.ts';
import type { TimelineItem } from '../src/content/timeline-item.ts';
import { describeDuration, type FoldState, withFolded } from '../src/content/turns.ts';
import { pluck } from './support/pluck.ts';

const OPEN: FoldState = { isFolded: false, exceptions: [] };
const FOLDED: FoldState = { isFolded: true, exceptions: [] };
const MORNING = new Date(2026, 4, 3, 9, 0).getTime();
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

let seq = 0;
function item(kind: 'user' | 'text' | 'thinking' | 'error', createdAt = MORNING, more: object = {}): TimelineItem {
  seq += 1;
  const fields = kind === 'user' ? { attachments: [], from: undefined, isQueued: false } : {};
  return { kind, key: `${kind} ${seq}`, text: kind, seq, createdAt, ...fields, ...more } as TimelineItem;
}
const tool = (createdAt = MORNING, state = 'done') =>
  ({ kind: 'tool', key: `tool ${(seq += 1)}`, name: 'Bash', input: {}, output: '', images: [], state, seq, createdAt }) as TimelineItem;
const ready = (createdAt = MORNING) => ({ kind: 'event', name: 'ready', key: `ready ${(seq += 1)}`, seq, createdAt }) as TimelineItem;
const rowsOf = (items: TimelineItem[], options: Partial<Parameters<typeof buildRows>[1]> = {}) =>
  buildRows(items, { folds: OPEN, hasOlder: false, newAfterSeq: null, ...options });
const kinds = (items: TimelineItem[], options: Partial<Parameters<typeof buildRows>[1]> = {}) =>
  rowsOf(items, options).map((row) => row.item.kind);

test('the first row of each day has a separator', () => {
  const times = [MORNING, MORNING + HOUR, MORNING + 15 * HOUR, MORNING + 40 * HOUR];
  const days = (hasOlder: boolean) =>
    rowsOf(
      times.map((time) => item('text', time)),
      { hasOlder },
    ).map(({ day }) => day !== undefined);
  assert.deepEqual(days(false), [true, false, true, true]);
  // The day of the first loaded message may have begun with an earlier message.
  assert.deepEqual(days(true), [false, false, true, true]);
});

test('a clock that was set back, and a text that is still written, begin no day', () => {
  const rows = rowsOf([item('text', MORNING), item('text', MORNING - 24 * HOUR), item('text', MORNING), item('text', Infinity)]);
  assert.deepEqual(pluck(rows, 'day'), [MORNING, undefined, undefined, undefined]);
});

test('a day has 23 or 25 hours when the clocks change', () => {
  const change = new Date(2026, 9, 25, 12).getTime();
  assert.equal(startOfDay(change, 1) - startOfDay(change), 25 * HOUR);
  assert.equal(new Date(startOfDay(change, -1)).getDate(), 24);
});

test('names today and yesterday, and formats other days', () => {
  const name = (time: number) => describeDay(time, MORNING, () => 'a date');
  assert.deepEqual([MORNING + 10 * HOUR, MORNING - 10 * HOUR, MORNING - 34 * HOUR, MORNING + 24 * HOUR].map(name), [
    'Today',
    'Yesterday',
    'a date',
    'a date',
  ]);
});

test('calls of the same minute show the time once; texts always show it', () => {
  const rows = rowsOf([item('user'), tool(), tool(), tool(MORNING + MINUTE), item('text', MORNING + MINUTE)]);
  assert.deepEqual(pluck(rows, 'showsTime'), [true, true, false, true, true]);
});

test('a folded turn shows the message of the user, the last text, errors, and a call that waits for the user', () => {
  const turn = [item('user'), item('text'), tool(), item('error'), item('text', MORNING + 4 * MINUTE), ready(MORNING + 4 * MINUTE)];
  const newest = [item('user'), tool(), item('text')];
  assert.deepEqual(kinds([...turn, ...newest], { folds: FOLDED }), ['user', 'error', 'text', 'user', 'tool', 'text']);
  assert.deepEqual(kinds([...turn, ...newest]), pluck([...turn, ...newest], 'kind'));
  const [head] = rowsOf([...turn, ...newest], { folds: FOLDED });
  assert.deepEqual(head?.turn, { key: turn[0]?.key, stepCount: 2, duration: 4 * MINUTE, isFolded: true });
  assert.deepEqual(kinds([item('user'), tool(MORNING, 'waiting'), tool(), item('user')], { folds: FOLDED }), ['user', 'tool', 'user']);
});

test('one turn can be opened while all turns are folded, and folded while all turns are open', () => {
  const [first, second] = [item('user'), item('user')];
  const items = [first, tool(), second, tool(), item('user'), item('text')];
  const opened = withFolded(FOLDED, first.key, false);
  assert.deepEqual(kinds(items, { folds: opened }), ['user', 'tool', 'user', 'user', 'text']);
  assert.deepEqual(withFolded(opened, first.key, true), FOLDED);
  assert.deepEqual(kinds(items, { folds: withFolded(OPEN, second.key, true) }), ['user', 'tool', 'user', 'user', 'text']);
});

test('the newest turn, and a queued message in it, stay open', () => {
  const items = [item('user'), tool(), item('user', MORNING, { isQueued: true }), tool()];
  assert.deepEqual(kinds(items, { folds: FOLDED }), ['user', 'tool', 'user', 'tool']);
  assert.ok(rowsOf(items).every(({ turn }) => turn === undefined));
});

test('a turn without its loaded message of the user is folded like the others', () => {
  assert.deepEqual(kinds([tool(), item('text'), tool(), item('user'), item('text')], { folds: FOLDED, hasOlder: true }), [
    'text',
    'user',
    'text',
  ]);
});

test('marks the first new item with the number of new items, without the user’s own items', () => {
  const items = [item('text'), item('user'), item('text'), ready(), tool()];
  const newAfterSeq = items[0]?.seq ?? 0;
  assert.deepEqual(pluck(rowsOf(items, { newAfterSeq }), 'newCount'), [undefined, undefined, 2, undefined, undefined]);
  assert.ok(rowsOf(items, { newAfterSeq: seq }).every(({ newCount }) => newCount === undefined));
});

test('describes durations in whole units', () => {
  assert.deepEqual([0, 59_000, 4 * MINUTE, 60 * MINUTE, 125 * MINUTE].map(describeDuration), ['1 s', '59 s', '4 min', '1 h', '2 h 5 min']);
});

test('an item without a change stays the same object', () => {
  const [a, b] = [item('text'), tool()];
  const changed = { ...b, output: 'more' } as TimelineItem;
  const reused = reuseItems([a, b], [{ ...a, cut: undefined } as never, changed]);
  assert.deepEqual(
    reuseItems([a], [{ ...a } as TimelineItem]).map((next) => next === a),
    [true],
  );
  assert.equal(reused[1], changed);
  const cut = { ...a, cut: [{ seq: 1, bytes: 2, isImage: false }] } as TimelineItem;
  assert.equal(reuseItems([cut], [{ ...cut, cut: [{ seq: 1, bytes: 2, isImage: false }] } as TimelineItem])[0], cut);
  assert.notEqual(reuseItems([cut], [{ ...cut, cut: [{ seq: 1, bytes: 3, isImage: false }] } as TimelineItem])[0], cut);
});
