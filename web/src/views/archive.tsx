/** The archived sessions. */

import { useEffect, useState } from 'preact/hooks';
import { sync } from '../hub.ts';
import { grouped, isArchived, matches } from '../state/sessions.ts';
import { reading, summaries } from '../state/store.ts';
import { Read } from '../ui/pieces.tsx';
import { Search } from '../ui/search.tsx';
import { Groups } from './session-list.tsx';

/** The view. Read anew whenever it is opened. */
export function Archive() {
  useEffect(() => void sync.archive(), []);
  const [query, setQuery] = useState('');
  const wanted = query.trim();
  const all = Object.values(summaries.value).filter(isArchived);
  const groups = grouped(wanted === '' ? all : all.filter((one) => matches(one, wanted)));
  return (
    <div class="page" tabIndex={0} role="region" aria-label="Archived sessions">
      <div class="page-head">
        <h1>Archive</h1>
      </div>
      <Read reading={reading.archive.value} label="Reading the archive" onRetry={() => void sync.archive()}>
        {all.length > 0 && <Search label="Search the archive" placeholder="Search the archive" value={query} onChange={setQuery} />}
        {all.length === 0 && (
          <div class="empty">
            <h2>The archive is empty</h2>
            <p>A session that you archive keeps its messages, and can be resumed from here.</p>
          </div>
        )}
        {all.length > 0 && groups.length === 0 && <p class="empty">No archived session matches “{wanted}”.</p>}
        <Groups groups={groups} />
      </Read>
    </div>
  );
}
