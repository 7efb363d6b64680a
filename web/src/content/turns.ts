/** Turns of a conversation: a message of the user, and what the agent did until the user's next message. */

import type { TimelineItem } from './timeline-item.ts';

/** Which turns are folded: all or none, with exceptions. */
export interface FoldState {
  isFolded: boolean;
  /** The keys of the turns for which the opposite of `isFolded` applies. */
  exceptions: readonly string[];
}

/** Limit on the remembered exceptions of a session. */
const MAX_EXCEPTIONS = 500;

export interface Turn {
  /** The key of the user's message; null if this message is not loaded. */
  key: string | null;
  /** How many steps the agent took before its last text. */
  stepCount: number;
  /** From the user's message to the last item, in milliseconds. */
  duration: number;
  /** The items that are shown while the turn is folded, after the user's message. */
  shownWhenFolded: ReadonlySet<TimelineItem>;
  /** The newest turn is never folded. */
  isNewest: boolean;
}

/** A queued message belongs to a later turn, but the agent is still working on the current turn. A canceled message starts no turn. */
const startsTurn = (item: TimelineItem) => item.kind === 'user' && !item.isQueued && item.outcome !== 'canceled';

const timeOf = (item: TimelineItem): number => ('createdAt' in item && Number.isFinite(item.createdAt) ? item.createdAt : 0);

/** Splits items into turns. Returns the turn of each item, in the order of the items. */
export function findTurns(items: readonly TimelineItem[]): Turn[] {
  const turns: Turn[] = [];
  for (let from = 0; from < items.length; ) {
    let to = from + 1;
    while (to < items.length && !startsTurn(items[to] as TimelineItem)) to += 1;
    const turn = describeTurn(items.slice(from, to), to === items.length);
    for (; from < to; from += 1) turns.push(turn);
  }
  return turns;
}

function describeTurn(items: TimelineItem[], isNewest: boolean): Turn {
  const first = items[0];
  const head = first && startsTurn(first) ? first : null;
  const lastText = items.findLast(({ kind }) => kind === 'text');
  const shownWhenFolded = new Set(items.filter((item) => item === lastText || staysVisible(item)));
  const steps = items.filter((item) => item !== head && !shownWhenFolded.has(item) && !isTurnEnd(item));
  const start = head ? timeOf(head) : 0;
  const end = items.reduce((latest, item) => (item.kind === 'permission' ? latest : Math.max(latest, timeOf(item))), start);
  return { key: head?.key ?? null, stepCount: steps.length, duration: end - start, shownWhenFolded, isNewest };
}

const isTurnEnd = (item: TimelineItem) => item.kind === 'event' && item.name === 'ready';

/** Whether an item stays visible in a folded turn: an error, an item of the user, or an item that waits for the user. */
const staysVisible = (item: TimelineItem) =>
  item.kind === 'error' ||
  item.kind === 'outgoing' ||
  (item.kind === 'user' && !startsTurn(item)) ||
  (item.kind === 'tool' && item.state === 'waiting');

/** Whether a turn is folded. Without its user's message, a turn follows the state of the whole session. */
export function isFolded({ key, stepCount, isNewest }: Turn, { isFolded: areFolded, exceptions }: FoldState): boolean {
  if (isNewest || stepCount === 0) return false;
  return areFolded !== (key !== null && exceptions.includes(key));
}

/** Folds or opens one turn. */
export function withFolded(folds: FoldState, key: string, shouldFold: boolean): FoldState {
  const others = folds.exceptions.filter((exception) => exception !== key);
  return { ...folds, exceptions: shouldFold === folds.isFolded ? others : [...others, key].slice(-MAX_EXCEPTIONS) };
}

/** Describes a duration in whole units, at least a second, such as "4 min". */
export function describeDuration(ms: number): string {
  const seconds = Math.max(1, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
}
