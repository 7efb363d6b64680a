/** Views whose code is fetched on first use. */

import type { FunctionComponent } from 'preact';
import { hasUploads } from '../state/uploads.ts';
import { reloadOutdatedPage } from '../ui/reload.ts';

const FETCH_FAILED = 'This view could not be loaded.';
const FETCH_FAILED_WITH_FILES = `${FETCH_FAILED} The page must be reloaded: send or remove the attached files, then try again.`;

/**
 * Creates a view that suspends until its code is fetched. When the fetch fails, the view throws to its error boundary, and the next
 * rendering fetches again. If the hub is reachable and no files are attached, the page is reloaded.
 */
export function lazy<T>(load: () => Promise<{ default: T }>): T {
  let View: FunctionComponent | undefined;
  let loading: Promise<void> | undefined;
  let failure: Error | undefined;
  const fetchView = async () => {
    try {
      View = (await load()).default as FunctionComponent;
    } catch (cause) {
      const losesFiles = hasUploads();
      failure = new Error(losesFiles ? FETCH_FAILED_WITH_FILES : FETCH_FAILED, { cause });
      if (!losesFiles) void reloadOutdatedPage();
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
  return Lazy as T;
}
