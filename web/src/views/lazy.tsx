/** Views whose code is fetched on first use. */

import type { FunctionComponent } from 'preact';
import { hasUploads } from '../state/uploads.ts';
import { reloadOutdatedPage } from '../ui/reload.ts';

const FETCH_FAILED = 'This view could not be loaded.';
const FETCH_FAILED_WITH_FILES = `${FETCH_FAILED} The page must be reloaded: send or remove the attached files, then try again.`;

/**
 * Creates a view that suspends until its code is fetched. When the fetch fails, the view throws to its error boundary, and the next
 * rendering fetches again. If the hub is reachable and no files are attached, the page is reloaded. `preload` fetches the code early.
 */
export function lazy<T>(load: () => Promise<T>): T & { preload: () => Promise<void> } {
  let View: FunctionComponent | undefined;
  let loading: Promise<void> | undefined;
  let failure: Error | undefined;
  const fetchView = async () => {
    try {
      View = (await load()) as FunctionComponent;
    } catch (cause) {
      const hasAttachedFiles = hasUploads();
      failure = new Error(hasAttachedFiles ? FETCH_FAILED_WITH_FILES : FETCH_FAILED, { cause });
      if (!hasAttachedFiles) void reloadOutdatedPage();
    }
    loading = undefined;
  };
  const Lazy: FunctionComponent = (props) => {
    if (View) return <View {...props} />;
    if (failure) {
      const thrown = failure;
      failure = undefined;
      throw thrown;
    }
    throw (loading ??= fetchView());
  };
  // A failure of the preload is ignored, because rendering the view fetches the code again and shows a failure.
  const preload = async () => {
    const loaded = await load().catch(() => null);
    if (loaded) View = loaded as FunctionComponent;
  };
  return Object.assign(Lazy as T & FunctionComponent, { preload });
}
