/** The rows of a conversation: the visible items with day separators, the start of new messages, and the lines of folded turns. */

import type { TimelineItem } from './timeline-item.ts';
import { type FoldState, findTurns, isFolded } from './turns.ts';

export interface Row {
  item: TimelineItem;
  /** If a day begins with this row: a time on that day, in Unix milliseconds. */
  day?: number;
  /** On the first new item: the number of new items. */
  newCount?: number;
  /** On the message of the user that starts a turn with steps. */
  turn?: { key: string; stepCount: number; duration: number; isFolded: boolean };
  /** Whether the row shows the time of day. Of consecutive tool calls in the same minute, only the first shows the time. */
  showsTime: boolean;
}

const MINUTE_MS = 60_000;

/** Whether a value is a time that can be shown. A CLI may send any number as a time. */
export const isTime = (time: number): boolean => Number.isFinite(time) && time > 0 && time < 8.64e15;

/** Returns when the hub or this browser has stored an item; null for a completed request, whose time a CLI has set, and for an invalid time. */
function storedTime(item: TimelineItem): number | null {
  if (item.kind === 'outgoing') return item.outgoing.createdAt;
  return item.kind === 'permission' || !isTime(item.createdAt) ? null : item.createdAt;
}

interface Options {
  folds: FoldState;
  /** Whether the conversation has items before the first of these items. */
  hasOlder: boolean;
  /** The seq of the newest message that is not new; null if no message is new. */
  newAfterSeq: number | null;
}

/** Whether an item is new to the user. */
export const isNewItem = ({ kind, seq = 0, ...item }: TimelineItem, afterSeq: number): boolean =>
  seq > afterSeq && kind !== 'user' && !(kind === 'event' && 'name' in item && item.name === 'ready');

export function buildRows(items: readonly TimelineItem[], { folds, hasOlder, newAfterSeq }: Options): Row[] {
  const turns = findTurns(items);
  const rows: Row[] = [];
  const days = new Days(hasOlder);
  let lastMinute = 0;
  let firstNew: Row | null = null;
  let newCount = 0;
  items.forEach((item, index) => {
    const turn = turns[index];
    const folded = turn !== undefined && isFolded(turn, folds);
    const isHead = item.key === turn?.key;
    if (folded && !isHead && !turn.shownWhenFolded.has(item)) return;
    const time = storedTime(item);
    const minute = time === null ? lastMinute : Math.floor(time / MINUTE_MS);
    const isDense = item.kind !== 'text' && item.kind !== 'user' && rows.at(-1)?.item.kind !== 'user';
    const row: Row = { item, showsTime: !isDense || minute !== lastMinute };
    lastMinute = minute;
    if (time !== null && days.begins(time)) row.day = time;
    if (isHead && !turn.isNewest && turn.stepCount > 0)
      row.turn = { key: item.key, stepCount: turn.stepCount, duration: turn.duration, isFolded: folded };
    if (newAfterSeq !== null && isNewItem(item, newAfterSeq)) {
      newCount += 1;
      firstNew ??= row;
    }
    rows.push(row);
  });
  if (firstNew !== null) (firstNew as Row).newCount = newCount;
  return rows;
}

/** Finds the first item of each day in the browser's time zone. */
class Days {
  #end: number;

  /** `hasOlder`: the first item does not begin a day. */
  constructor(hasOlder: boolean) {
    this.#end = hasOlder ? Number.NaN : -Infinity;
  }

  begins(time: number): boolean {
    const isFirst = Number.isNaN(this.#end);
    // A time earlier than the previous one, because a clock was set back, does not begin a day.
    if (!isFirst && time < this.#end) return false;
    this.#end = startOfDay(time, 1);
    return !isFirst;
  }
}

/** Returns the start of the day that is `daysLater` days after the day of a time, in the browser's time zone. */
export function startOfDay(time: number, daysLater = 0): number {
  const date = new Date(time);
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() + daysLater).getTime();
}

/** Describes a day: "Today", "Yesterday", or a date by `format`. */
export function describeDay(time: number, now: number, format: (time: number) => string): string {
  const day = startOfDay(time);
  if (day === startOfDay(now)) return 'Today';
  return day === startOfDay(now, -1) ? 'Yesterday' : format(time);
}

/** Replaces items by the items of the previous timeline that have the same content, so that unchanged rows are not rendered again. */
export function reuseItems(previous: readonly TimelineItem[], items: TimelineItem[]): TimelineItem[] {
  const known = new Map(previous.map((item) => [item.key, item]));
  return items.map((item) => {
    const before = known.get(item.key);
    return before !== undefined && isSameItem(before, item) ? before : item;
  });
}

function isSameItem(a: TimelineItem, b: TimelineItem): boolean {
  const [fieldsA, fieldsB] = [a, b] as unknown as Record<string, unknown>[];
  const names = Object.keys(fieldsB as object);
  if (Object.keys(fieldsA as object).length !== names.length) return false;
  return names.every((name) => isSameValue(fieldsA?.[name], fieldsB?.[name]));
}

/** Compares arrays by their elements, and all other values by identity: the parts of a message are cached. */
function isSameValue(a: unknown, b: unknown): boolean {
  if (!Array.isArray(a) || !Array.isArray(b)) return Object.is(a, b);
  return (
    a.length === b.length &&
    a.every((value, index) => Object.is(value, b[index]) || isSameExcerpt(value, b[index]) || isSameChild(value, b[index]))
  );
}

/** Compares items of a sub-agent. */
const isSameChild = (a: unknown, b: unknown): boolean => isItem(a) && isItem(b) && a.key === b.key && isSameItem(a, b);

const isItem = (value: unknown): value is TimelineItem => typeof value === 'object' && value !== null && 'kind' in value && 'key' in value;

/** Compares excerpts by their fields: of the objects in the arrays of items, only excerpts are rebuilt with each timeline. */
function isSameExcerpt(a: unknown, b: unknown): boolean {
  const isExcerpt = (value: unknown): value is { seq: number; bytes: number } =>
    typeof value === 'object' && value !== null && 'seq' in value && 'bytes' in value;
  return isExcerpt(a) && isExcerpt(b) && a.seq === b.seq && a.bytes === b.bytes;
}
