/** Texts for the notification log. */

import type { PushLogEntry } from '../api/types.ts';

const OUTCOMES: Record<PushLogEntry['outcome'], string> = {
  waiting: 'Waiting to be sent',
  sending: 'Not delivered to all browsers yet, retrying',
  sent: 'Delivered',
  failed: 'Not delivered',
  toast: 'Shown in the console, which was in use',
  'no-subscribers': 'Not sent: no browser has notifications on',
  answered: 'Not sent: already answered',
  'session-gone': 'Not sent: the session was deleted',
  muted: 'Not sent: the session is muted',
  'cooling-down': 'Not sent: too soon after the last one of this session',
  replaced: 'Not sent: replaced by a newer one',
  overloaded: 'Not sent: too many notifications at once',
  unavailable: 'Not sent: the hub could not read the subscriptions',
};

/** Describes why a browser did not get a notification. Without a `status` of a push service, returns the hub's own reason. */
export function describeFailure({ status, reason }: PushLogEntry['failures'][number]): string {
  if (status === undefined) return reason;
  if (status === 404 || status === 410) return 'The browser has unsubscribed';
  if (status === 413) return 'The notification was too long';
  if (status === 429 || status >= 500) return 'The push service was busy';
  return 'The push service rejected it';
}

export function describeOutcome({ outcome: code, sent, waiting: waitingBrowsers }: PushLogEntry): string {
  if (code === 'toast' && waitingBrowsers > 0) return 'Shown in the console. Sent in a minute if the console is not used until then';
  // A newer hub may have outcomes that this page does not know.
  const text = OUTCOMES[code] ?? code;
  return code === 'sent' ? `${text} to ${sent} ${sent === 1 ? 'browser' : 'browsers'}` : text;
}

/** Whether any notification had a subscriber. If not, the log need not be shown. */
export const hadSubscribers = (log: PushLogEntry[]): boolean => log.some(({ outcome }) => outcome !== 'no-subscribers');
