/** Asks once more before an agent may do everything without asking. */

import { openDialog } from '../ui/dialog.tsx';

/** `apply` is called if the user agrees. The dialog shows its error. */
export function confirmNeverAsking(apply: () => Promise<unknown>): void {
  openDialog({
    title: 'Approve everything?',
    text: 'The agent will run commands and change files without asking, even when you are not watching.',
    action: 'Approve everything',
    isDangerous: true,
    onConfirm: apply,
  });
}
