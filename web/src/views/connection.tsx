/** How the connection to the hub is, in words, when there is something to say. */

import { CloudOff, RefreshCw } from 'lucide-preact';
import { useEffect, useState } from 'preact/hooks';
import { connection, isCatchingUp } from '../state/store.ts';

/** A connection that is back within this time is nobody's concern, in milliseconds. */
const PATIENCE_MS = 1200;

/** The banner. */
export function ConnectionBanner() {
  const now = connection.value;
  const [shown, setShown] = useState(now);
  useEffect(() => {
    if (now === 'live' || now === 'offline') {
      setShown(now);
      return undefined;
    }
    const timer = setTimeout(() => setShown(now), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [now]);
  const words = {
    offline: 'You are offline. What you send waits here.',
    reconnecting: 'The connection broke. Reconnecting …',
    connecting: 'Connecting …',
    live: isCatchingUp.value ? 'Reading what was missed …' : null,
  }[shown];
  return (
    <div role="status" class="connection" data-state={now}>
      {words && (
        <p class={shown === 'offline' || shown === 'reconnecting' ? 'notice warn' : 'notice'}>
          {shown === 'offline' ? <CloudOff size={16} aria-hidden /> : <RefreshCw size={16} aria-hidden />}
          {words}
        </p>
      )}
    </div>
  );
}
