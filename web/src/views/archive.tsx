/** The archive: all archived sessions, with a search. */

import { useSignal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { sync } from '../state/hub-client.ts';
import { groupSessions, isArchived, matchesQuery, sortSessions } from '../state/sessions.ts';
import { loadStates, summaries } from '../state/store.ts';
import { LoadGate } from '../ui/loading.tsx';
import { SearchField } from '../ui/search.tsx';
import { rowsUpTo, SessionGroups } from './session-groups.tsx';

export function Archive() {
  useEffect(() => void sync.fetchArchive(), []);
  const [query, setQuery] = useState('');
  const rowLimit = useSignal(rowsUpTo(0));
  const trimmedQuery = query.trim();
  const archived = Object.values(summaries.value).filter(isArchived);
  const groups = groupSessions(
    sortSessions(trimmedQuery === '' ? archived : archived.filter((session) => matchesQuery(session, trimmedQuery))),
  );
  return (
    <div class="page" tabIndex={0} role="region" aria-label="Archived sessions">
      <div class="page-head">
        <h1>Archive</h1>
      </div>
      <LoadGate loadState={loadStates.archive.value} label="Loading the archive" onRetry={() => void sync.refetchShown()}>
        {archived.length > 0 && (
          <SearchField label="Search the archive" placeholder="Search the archive" value={query} onChange={setQuery} />
        )}
        {archived.length === 0 && (
          <div class="empty">
            <h2>The archive is empty</h2>
            <p>Archived sessions keep their messages. You can resume them from here.</p>
          </div>
        )}
        {archived.length > 0 && groups.length === 0 && <p class="empty">No archived session matches “{trimmedQuery}”.</p>}
        <SessionGroups groups={groups} rowLimit={rowLimit} />
      </LoadGate>
    </div>
  );
}
