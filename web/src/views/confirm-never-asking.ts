/** Asks the user for confirmation before an agent may do everything without asking. */

import { openDialog } from '../ui/dialog.tsx';

/** Calls `apply` if the user agrees. The dialog shows an error of `apply`. */
export function confirmNeverAsking(apply: () => Promise<unknown>, whyObsolete?: () => string | undefined): void {
  openDialog({
    title: 'Approve everything?',
    text: 'The agent will run commands and change files without asking, even when you are not watching.',
    action: 'Approve everything',
    isDangerous: true,
    ...(whyObsolete && { whyObsolete }),
    onConfirm: apply,
  });
}
