/** Asks the user to trust a folder in which a machine did not start a session. */

import type { HubError } from '../api/errors.ts';
import { openDialog } from '../ui/dialog.tsx';

/**
 * Starts a session. If the machine does not trust the folder, opens a dialog, and starts the session once the user trusts the folder. The
 * dialog shows an error of this second start.
 * @throws the error of the first start
 */
export async function startAskingTrust(start: (trust: boolean) => Promise<unknown>): Promise<void> {
  try {
    await start(false);
  } catch (error) {
    if ((error as HubError | null)?.code !== 'untrusted_directory') throw error;
    openDialog({
      title: 'Trust this folder?',
      text: "Agents run this folder's hooks and MCP servers as soon as a session starts.",
      action: 'Trust and start',
      onConfirm: () => start(true),
    });
  }
}
