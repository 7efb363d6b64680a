/** Warns before the page is closed or reloaded with something that the browser does not store. */

import { isResetting } from './hub-client.ts';
import { unsentMessages } from './outbox.ts';
import { hasUploads } from './uploads.ts';

/** Attached files are never stored. Unsent messages are volatile where the browser has no storage for them. */
export function warnBeforeUnload(): void {
  addEventListener('beforeunload', (event) => {
    if (!isResetting && (hasUploads() || unsentMessages().some(({ isVolatile }) => isVolatile))) event.preventDefault();
  });
}
