/** The renderer of markdown. Its code is fetched at the same time as the first data of a session: an earlier fetch would delay the data. */

import { batch, signal } from '@preact/signals';
import { reloadOutdatedPage } from '../ui/reload.ts';
import { hasUploads } from './uploads.ts';

type MarkdownRenderer = typeof import('../content/render-markdown.ts');

/** A conversation is shown without the renderer if the fetch of the renderer takes longer. */
const MAX_WAIT_MS = 2000;

/** Null until the code is fetched. Meanwhile, the source is shown. */
export const markdownRenderer = signal<MarkdownRenderer | null>(null);

/**
 * Whether the fetch of the renderer has ended, or has taken {@link MAX_WAIT_MS}. Before that, no text is shown: the text would change its
 * height when it is rendered.
 */
export const isMarkdownSettled = signal(false);

let fetching: Promise<void> | null = null;

/** Fetches the renderer once. After a failure, the next call fetches again. */
export function fetchMarkdownRenderer(): Promise<void> {
  return (fetching ??= fetchOnce());
}

async function fetchOnce(): Promise<void> {
  const stopWaiting = () => {
    isMarkdownSettled.value = true;
  };
  const timer = setTimeout(stopWaiting, MAX_WAIT_MS);
  const renderer = await import('../content/render-markdown.ts').catch(() => null);
  clearTimeout(timer);
  batch(() => {
    markdownRenderer.value = renderer;
    stopWaiting();
  });
  if (renderer !== null) return;
  fetching = null;
  if (!hasUploads()) void reloadOutdatedPage();
}
