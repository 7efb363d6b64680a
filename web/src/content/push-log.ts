/** What became of notifications, in words for a person who wonders. */

import type { PushLogEntry } from '../api/types.ts';

/** How a notification ended. */
const OUTCOMES: Record<PushLogEntry['outcome'], string> = {
  waiting: 'Is sent in a moment',
  sending: 'Not delivered everywhere yet, and tried again',
  sent: 'Delivered',
  failed: 'Not delivered',
  toast: 'Shown in the console, which you had in view',
  'no-subscribers': 'Not sent, as no browser had notifications on',
  answered: 'Not sent, as it was answered right away',
  'session-gone': 'Not sent, as the session was deleted',
  'cooling-down': 'Not sent, as you were told of this session a moment before',
  replaced: 'Not sent, as a newer one took its place',
  overloaded: 'Not sent, as there were too many at once',
  unavailable: 'Not sent, as the hub could not look up your browsers',
};

/** Why a browser did not get one: what its push service answered, and where none was asked the hub's own words. */
export function failureOf({ status, reason }: PushLogEntry['failures'][number]): string {
  if (status === undefined) return reason;
  if (status === 404 || status === 410) return 'The browser has unsubscribed';
  if (status === 413) return 'The message was too long for the browser';
  if (status === 429 || status >= 500) return 'The browser’s push service was busy';
  return 'The browser’s push service refused it';
}

/** An entry's outcome in words. */
export function outcomeOf({ outcome: word, sent }: PushLogEntry): string {
  // A newer hub may know more of them than this page.
  const text = OUTCOMES[word] ?? word;
  return word === 'sent' ? `${text} to ${sent} ${sent === 1 ? 'browser' : 'browsers'}` : text;
}

/** Whether any browser has had notifications on, so that there is something to wonder about. */
export const wasAnyOn = (log: PushLogEntry[]): boolean => log.some(({ outcome }) => outcome !== 'no-subscribers');
