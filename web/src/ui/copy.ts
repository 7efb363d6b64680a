/** Copying for a person. */

import { attempt, toast } from './toasts.tsx';

/** Puts a text on the clipboard, and says so. */
export async function copy(text: string): Promise<void> {
  await attempt('Not copied', async () => {
    // A browser has no clipboard for a page that came without encryption.
    if (!navigator.clipboard) throw new Error('The browser allows it over HTTPS only.');
    await navigator.clipboard.writeText(text);
    toast({ title: 'Copied', text: text.length > SHOWN ? `${text.slice(0, SHOWN)} …` : text });
  });
}

/** So many characters show which text it was. */
const SHOWN = 80;
