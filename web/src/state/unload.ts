/** Warns before the page is closed or reloaded while it has data that the browser does not store. */

import { isResetting } from './hub-client.ts';
import { unsentMessages } from './outbox.ts';
import { hasUploads } from './uploads.ts';

/** Adds the warning. Attached files are never stored; unsent messages are volatile if the browser cannot store them. */
export function warnBeforeUnload(): void {
  addEventListener('beforeunload', (event) => {
    if (!isResetting && (hasUploads() || unsentMessages().some(({ isVolatile }) => isVolatile))) event.preventDefault();
  });
}
