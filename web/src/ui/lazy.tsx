/** Views whose code is fetched when they are first shown. */

import type { FunctionComponent } from 'preact';
import { reloadOutdatedPage } from '../reload.ts';
import { hasUploads } from '../state/uploads.ts';

const FETCH_FAILED = 'A part of the console could not be fetched.';
const FETCH_FAILED_WITH_FILES = `${FETCH_FAILED} Send or remove the attached files, then try again: the page has to be reloaded.`;

/**
 * A view that suspends until its code is fetched. When the fetch fails, the view throws to its error boundary, and rendering
 * it again fetches again. The page is reloaded if the hub is reachable, unless that would lose attached files.
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
