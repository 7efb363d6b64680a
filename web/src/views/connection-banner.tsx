/** A banner about the connection to the hub, shown while it is not live. */

import { CloudOff, RefreshCw } from 'lucide-preact';
import { useEffect, useState } from 'preact/hooks';
import { connectionState, isCatchingUp } from '../state/store.ts';

/** A shorter interruption is not shown. */
const SHOW_DELAY_MS = 1200;

export function ConnectionBanner() {
  const current = connectionState.value;
  const [shown, setShown] = useState(current);
  useEffect(() => {
    if (current === 'live' || current === 'offline') {
      setShown(current);
      return undefined;
    }
    const timer = setTimeout(() => setShown(current), SHOW_DELAY_MS);
    return () => clearTimeout(timer);
  }, [current]);
  const text = {
    offline: 'You are offline. Messages are sent when you are back online.',
    reconnecting: 'Connection lost. Reconnecting …',
    connecting: 'Connecting …',
    live: isCatchingUp.value ? 'Catching up …' : null,
  }[shown];
  return (
    <div role="status" class="connection" data-state={current}>
      {text && (
        <p class={shown === 'offline' || shown === 'reconnecting' ? 'notice warn' : 'notice'}>
          {shown === 'offline' ? <CloudOff size={16} aria-hidden /> : <RefreshCw size={16} aria-hidden />}
          {text}
        </p>
      )}
    </div>
  );
}
