/** Views whose code is fetched when they are first shown. */

import type { FunctionComponent } from 'preact';

/**
 * A view that is shown when its code is here; until then the `Suspense` around it shows something else. When the code cannot
 * be fetched, the boundary around it says so, and its next try fetches it again. (A browser may remember that an import has
 * failed: with the hub there again, `main.tsx` loads the page anew then.)
 */
export function lazy<T>(load: () => Promise<{ default: T }>): T {
  let View: FunctionComponent | undefined;
  let loading: Promise<void> | undefined;
  let failure: Error | undefined;
  const fetchView = async () => {
    try {
      View = (await load()).default as FunctionComponent;
    } catch (cause) {
      failure = new Error('A part of the console could not be fetched.', { cause });
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
