/** Notifications of this browser, and what became of the latest. */

import './notifications.css';
import { Bell, RotateCw } from 'lucide-preact';
import { useEffect, useState } from 'preact/hooks';
import { data } from '../api/client.ts';
import { failureOf, outcomeOf, wasAnyOn } from '../content/push-log.ts';
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
  const log = wasAnyOn(value.log) ? value.log : [];
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
              {entry.title}: {outcomeOf(entry)}
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
