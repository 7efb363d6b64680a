/** Signing out of the page's account. */

import { auth } from '../state/hub-client.ts';
import { revokeThisDevice } from '../state/devices.ts';
import { unsentMessages } from '../state/outbox.ts';
import { unsubscribe } from '../state/push.ts';
import { openDialog } from '../ui/dialog.tsx';

/** How long signing out waits for the hub. Without an answer, the device stays in the list. */
const REVOKE_TIMEOUT_MS = 3000;

/** Signs out. Before that, turns off the notifications of the account, and revokes the token of this browser. */
async function signOut(): Promise<void> {
  await unsubscribe().catch(() => {});
  if (auth.isDevice)
    await Promise.race([revokeThisDevice().catch(() => {}), new Promise((resolve) => setTimeout(resolve, REVOKE_TIMEOUT_MS))]);
  auth.signOut();
}

/** Signs out, but asks first if that deletes unsent messages. */
export function confirmSignOut(): void {
  const { length } = unsentMessages();
  if (length === 0) return void signOut();
  openDialog({
    title: 'Sign out?',
    text:
      length === 1
        ? 'A message is not sent yet. Signing out deletes it.'
        : `${length} messages are not sent yet. Signing out deletes them.`,
    action: 'Sign out',
    isDangerous: true,
    onConfirm: signOut,
  });
}
