/** A banner about the connection to the hub, shown while the connection is not live. */

import { CloudOff, RotateCw } from 'lucide-preact';
import { useComputed } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import type { ConnectionState } from '../api/channel.ts';
import { getOwn } from '../state/get-own.ts';
import { connectionState, hasDurableStorage, isCatchingUp, listSavedAt, openSessionId, state } from '../state/store.ts';
import { formatTime } from '../ui/format.ts';

/** The banner appears only if the connection is not live for this long. */
const SHOW_DELAY_MS = 1200;

export function ConnectionBanner() {
  const current = connectionState.value;
  // At first `live`, so that the banner does not appear whenever a page loads.
  const [shownState, setShownState] = useState<ConnectionState>('live');
  useEffect(() => {
    if (current === 'live' || current === 'offline' || current === 'checking') {
      setShownState(current);
      return undefined;
    }
    const timer = setTimeout(() => setShownState(current), SHOW_DELAY_MS);
    return () => clearTimeout(timer);
  }, [current]);
  const text = {
    offline: hasDurableStorage.value
      ? 'You are offline. Messages are stored, and sent when you open the console online.'
      : 'You are offline. Keep this page open: messages are sent when you are back online, but this browser does not store them.',
    reconnecting: 'Connection lost. Reconnecting …',
    connecting: 'Connecting …',
    polling: 'A proxy delays updates: refreshing every 10 seconds.',
    checking: 'Checking the connection …',
    live: isCatchingUp.value ? 'Catching up …' : null,
  }[shownState];
  const id = openSessionId.value;
  const savedAt = useComputed(() => {
    const openId = openSessionId.value;
    return openId === null ? listSavedAt.value : getOwn(state.value.storedSessions, openId);
  }).value;
  return (
    <div role="status" class="connection" data-state={current}>
      {text && (
        <p key={text} class={shownState === 'offline' || shownState === 'reconnecting' ? 'notice warn' : 'notice'}>
          {shownState === 'offline' ? <CloudOff size={16} /> : <RotateCw size={16} />}
          <span>
            {text}
            {savedAt != null && ` The ${id === null ? 'list of sessions' : 'session'} is shown as of ${formatTime(savedAt)}.`}
          </span>
        </p>
      )}
    </div>
  );
}
