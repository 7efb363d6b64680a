/** Copies text to the clipboard. */

import { showToast, tryOrToast } from './toasts.tsx';

const MAX_TOAST_LENGTH = 80;

/** Copies a text and shows a toast with the result. */
export async function copyToClipboard(text: string): Promise<void> {
  await tryOrToast('Copy failed', async () => {
    // Browsers provide the clipboard only to pages in a secure context.
    if (!navigator.clipboard) throw new Error('Open the console over HTTPS to copy.');
    await navigator.clipboard.writeText(text);
    showToast({ title: 'Copied', text: text.length > MAX_TOAST_LENGTH ? `${text.slice(0, MAX_TOAST_LENGTH)} …` : text });
  });
}
