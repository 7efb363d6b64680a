/** Messages between the tabs of a browser that are signed in to the same namespace of this hub. */

import { pathPrefix } from '../content/hub-address.ts';

/**
 * `outbox`: the unsent messages of a session have changed; `sentId` is the message that was sent. `draft`: a draft has changed.
 * `stream`: the tab with this id has opened or closed a stream of events.
 */
export type TabMessage =
  | { type: 'outbox'; sessionId: string; sentId?: string }
  | { type: 'draft'; id: string; value: unknown }
  | { type: 'stream'; id: string; isOpen: boolean };

let channel: BroadcastChannel | undefined;

/** Starts to receive the messages of the other tabs. */
export function joinTabs(namespace: string, onMessage: (message: TabMessage) => void): void {
  try {
    channel = new BroadcastChannel(`console${pathPrefix()} ${namespace}`);
  } catch {
    // A browser that blocks storage may block this, too. Then the tabs have no common data.
    return;
  }
  channel.onmessage = ({ data }: MessageEvent<TabMessage>) => onMessage(data);
}

/** Sends a message to the other tabs. */
export function postToTabs(message: TabMessage): void {
  channel?.postMessage(message);
}
