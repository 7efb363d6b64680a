/** The settings section for notifications: the switch for this browser, and the log of recent notifications. */

import './notifications.css';
import { Bell, RotateCw } from 'lucide-preact';
import { useEffect, useState } from 'preact/hooks';
import { unwrap } from '../api/client.ts';
import { hadSubscribers } from '../content/push-log.ts';
import { api } from '../state/hub-client.ts';
import { isConfigSettled, state } from '../state/store.ts';
import {
  type PushChoice,
  pushChoice,
  pushStatus,
  type PushStatus,
  refreshPushStatus,
  setPushChoice,
  subscribe,
  unsubscribe,
} from '../state/push.ts';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { tryOrToast } from '../ui/toasts.tsx';
import { useFetch } from '../ui/use-fetch.ts';
import { PushEntry } from './push-entry.tsx';

/** Why notifications cannot be turned on. */
const UNAVAILABLE_TEXTS: Partial<Record<PushStatus, string>> = {
  unsupported: 'This browser does not support notifications.',
  install:
    'On this device, notifications work only from the home screen. Share this page, choose “Add to Home Screen”, and open the console from there.',
  blocked:
    'This browser blocks notifications from this page. Open the site settings next to the address bar, set notifications to “Allow”, and reload.',
};

const NO_CONTACT_TEXT = 'Notifications need a contact address. Ask the person who runs this hub to set it.';

const MAX_ENTRIES = 20;

export function Notifications() {
  const [isBusy, setBusy] = useState(false);
  useEffect(() => void refreshPushStatus(), []);
  const isOn = pushStatus.value === 'on';
  const toggle = async () => {
    setBusy(true);
    await tryOrToast('Could not change notifications', isOn ? unsubscribe : subscribe);
    setBusy(false);
  };
  const isOffered = isOn || state.value.config?.push.available !== false;
  // Until the status is known, neither the button nor the text is shown, so that they do not flicker while the page loads.
  const isKnown = isConfigSettled.value && (!isOffered || pushStatus.value !== 'unknown');
  const unavailable = isOffered ? UNAVAILABLE_TEXTS[pushStatus.value] : NO_CONTACT_TEXT;
  return (
    <section class="card stack" aria-labelledby="notifications">
      <h2 id="notifications">Notifications</h2>
      <p class="muted">
        Notifies you on this device when an agent needs permission or has finished, unless you are using the console here.
      </p>
      <div class="push-status">
        {isKnown && unavailable && <p class={pushStatus.value === 'blocked' ? 'notice warn' : 'notice'}>{unavailable}</p>}
        {isKnown && !unavailable && (
          <button type="button" class={isOn ? 'button' : 'button primary'} disabled={isBusy} aria-pressed={isOn} onClick={toggle}>
            <Bell size={16} /> {isOn ? 'Turn notifications off' : 'Turn notifications on'}
          </button>
        )}
      </div>
      {isOn && <ChoiceField />}
      <NotificationLog />
    </section>
  );
}

/** What this device is notified about. */
function ChoiceField() {
  const [isBusy, setBusy] = useState(false);
  const change = async (choice: PushChoice) => {
    setBusy(true);
    await tryOrToast('Could not change notifications', () => setPushChoice(choice));
    setBusy(false);
  };
  return (
    <div class="field">
      <label for="push-choice">Notify this device about</label>
      <select
        id="push-choice"
        class="input"
        value={pushChoice.value}
        disabled={isBusy}
        onChange={({ currentTarget }) => void change(currentTarget.value === 'requests' ? 'requests' : 'all')}
      >
        <option value="all">Requests and ready agents</option>
        <option value="requests">Requests only</option>
      </select>
    </div>
  );
}

/** Fetches the log only when it is opened. */
function NotificationLog() {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="push-log" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Recent notifications</summary>
      {isOpen && <LogEntries />}
    </details>
  );
}

function LogEntries() {
  const { value, error, isLoading, refetch } = useFetch('push-log', () => unwrap(api.GET('/api/push/log')));
  if (error !== null) return <ErrorNotice text={error} onRetry={refetch} />;
  if (value === undefined) return <Skeleton label="Loading the log" lines={3} />;
  const log = hadSubscribers(value.log) ? value.log : [];
  return (
    <div class="stack">
      {log.length === 0 && <p class="muted">No notifications yet. Turn them on in each browser that should receive them.</p>}
      <ul role="list" class="log-rows" aria-label="Recent notifications">
        {log.slice(0, MAX_ENTRIES).map((entry) => (
          <li key={`${entry.at} ${entry.sessionId} ${entry.requestId}`}>
            <PushEntry entry={entry} />
          </li>
        ))}
      </ul>
      <div>
        <button type="button" class="button" disabled={isLoading} onClick={refetch}>
          <RotateCw size={16} /> Refresh
        </button>
      </div>
    </div>
  );
}
