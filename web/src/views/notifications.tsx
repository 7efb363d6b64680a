/** Notifications of this browser, and what became of the latest. */

import './notifications.css';
import { Bell, RotateCw } from 'lucide-preact';
import { useEffect, useState } from 'preact/hooks';
import { data } from '../api/client.ts';
import type { PushLogEntry } from '../api/types.ts';
import { api } from '../hub.ts';
import { push, type PushState, readPush, subscribe, unsubscribe } from '../push.ts';
import { ago, Failure, Skeleton } from '../ui/pieces.tsx';
import { attempt } from '../ui/toasts.tsx';
import { useRead } from '../ui/use-read.ts';

/** Why there is no switch. */
const NO_SWITCH: Partial<Record<PushState, string>> = {
  unsupported: 'This browser has no notifications.',
  install: 'On this device notifications need the console on the home screen: share this page, choose “Add to Home Screen”, and open it from there.',
  blocked: 'This browser blocks notifications of this page. To allow them, open the page’s settings, at the left of its address, set notifications to “Allow”, and reload.',
};

/** What became of a notification, for a person who wonders why none came. */
const OUTCOMES: Record<PushLogEntry['outcome'], string> = {
  waiting: 'Is sent in a moment',
  sending: 'Not delivered everywhere yet, and tried again',
  sent: 'Delivered',
  failed: 'Not delivered',
  toast: 'Shown in the console, which you had in view',
  'no-subscribers': 'Not sent: no browser had notifications on',
  answered: 'Not sent: it was answered right away',
  'session-gone': 'Not sent: the session was deleted',
  'cooling-down': 'Not sent: you were told of this session a moment before',
  replaced: 'Not sent: a newer one took its place',
  overloaded: 'Not sent: there were too many at once',
  unavailable: 'Not sent: the hub could not look up your browsers',
};

/** Why a browser did not get one: what its push service answered, and where none was asked the hub's own words. */
function failureOf({ status, reason }: PushLogEntry['failures'][number]): string {
  if (status === undefined) return reason;
  if (status === 404 || status === 410) return 'The browser has unsubscribed';
  if (status === 413) return 'The message was too long for the browser';
  if (status === 429 || status >= 500) return 'The browser’s push service was busy';
  return 'The browser’s push service refused it';
}

/** How many entries are shown. */
const SHOWN = 20;

/** The part of the settings. */
export function Notifications() {
  const [busy, setBusy] = useState(false);
  useEffect(() => void readPush(), []);
  const isOn = push.value === 'on';
  const change = async () => {
    setBusy(true);
    await attempt('Notifications stay as they are', isOn ? unsubscribe : subscribe);
    setBusy(false);
  };
  const why = NO_SWITCH[push.value];
  return (
    <section class="card stack" aria-labelledby="notifications">
      <h2 id="notifications">Notifications</h2>
      <p class="muted">When an agent asks for permission, or is done and waits for you, and you are not looking at this page.</p>
      {why && <p class={push.value === 'blocked' ? 'notice warn' : 'notice'}>{why}</p>}
      {(isOn || push.value === 'off') && (
        <div>
          <button type="button" class={isOn ? 'button' : 'button primary'} disabled={busy} aria-pressed={isOn} onClick={change}>
            <Bell size={16} aria-hidden /> {isOn ? 'Turn notifications off' : 'Turn notifications on'}
          </button>
        </div>
      )}
      <Log />
    </section>
  );
}

/** The log is read only when somebody wants to see it. */
function Log() {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="push-log" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Recent notifications</summary>
      {isOpen && <Entries />}
    </details>
  );
}

function Entries() {
  const { value, error, isReading, again } = useRead('push-log', () => data(api.GET('/api/push/log')));
  if (error !== null) return <Failure text={error} onRetry={again} />;
  if (value === undefined) return <Skeleton label="Reading the log" lines={3} />;
  // Where no browser ever had them on, there is nothing to wonder about.
  const log = value.log.every(({ outcome: word }) => word === 'no-subscribers') ? [] : value.log;
  return (
    <div class="stack">
      {log.length === 0 && <p class="muted">There were none yet. A browser gets them when they are turned on in it.</p>}
      <ul role="list" aria-label="Recent notifications">
        {log.slice(0, SHOWN).map((entry) => (
          <li key={`${entry.at} ${entry.sessionId} ${entry.requestId}`}>
            <div class="spread">
              <a class="ellipsis" href={`/sessions/${entry.sessionId}`}>
                {entry.body}
              </a>
              <time class="small muted" dateTime={new Date(entry.at).toISOString()}>
                {ago(entry.at)}
              </time>
            </div>
            <p class="small">
              {entry.title}: {outcome(entry)}
            </p>
            {[...entry.failures, ...entry.retries].map((one, at) => (
              <p key={at} class="small muted">
                {failureOf(one)} ({[one.service, one.status].filter(Boolean).join(', ')})
              </p>
            ))}
          </li>
        ))}
      </ul>
      <div>
        <button type="button" class="button" disabled={isReading} onClick={again}>
          <RotateCw size={16} aria-hidden /> Read again
        </button>
      </div>
    </div>
  );
}

/** An entry's outcome in words. */
function outcome({ outcome: word, sent }: PushLogEntry): string {
  // A newer hub may know more of them than this page.
  const text = OUTCOMES[word] ?? word;
  return word === 'sent' ? `${text} to ${sent} ${sent === 1 ? 'browser' : 'browsers'}` : text;
}
