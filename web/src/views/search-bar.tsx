/** Opens the search of a session with Ctrl+F or Cmd+F, instead of the browser's search. */

import { Suspense } from 'preact/compat';
import { useEffect } from 'preact/hooks';
import type { Session } from '../api/types.ts';
import { SEARCH_FIELD_ID, searchedSessionId } from '../state/jump.ts';
import { lazy } from './lazy.tsx';

const SessionSearch = lazy(() => import('./session-search.tsx').then(({ SessionSearch }) => SessionSearch));

export function SearchBar({ session: { id } }: { session: Session }) {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const isFind = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === 'f';
      if (!isFind || document.querySelector('dialog[open]')) return;
      const field = document.getElementById(SEARCH_FIELD_ID);
      // A second Ctrl+F opens the browser's own search.
      if (field !== null && document.activeElement === field) return;
      event.preventDefault();
      if (field === null) searchedSessionId.value = id;
      else field.focus();
    };
    document.addEventListener('keydown', onKeyDown);
    return () => {
      document.removeEventListener('keydown', onKeyDown);
      searchedSessionId.value = null;
    };
  }, [id]);
  if (searchedSessionId.value !== id) return null;
  return (
    <Suspense fallback={<div class="session-search" />}>
      <SessionSearch sessionId={id} />
    </Suspense>
  );
}
