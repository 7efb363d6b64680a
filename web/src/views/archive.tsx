/** The archived sessions. */

import { useEffect } from 'preact/hooks';
import { sync } from '../hub.ts';
import { grouped, isArchived } from '../state/sessions.ts';
import { reading, summaries } from '../state/store.ts';
import { Read } from '../ui/pieces.tsx';
import { Groups } from './session-list.tsx';

/** The view. Read anew whenever it is opened. */
export function Archive() {
  useEffect(() => void sync.archive(), []);
  const groups = grouped(Object.values(summaries.value).filter(isArchived));
  return (
    <div class="page" tabIndex={0} role="region" aria-label="Archived sessions">
      <div class="page-head">
        <h1>Archive</h1>
      </div>
      <Read reading={reading.archive.value} label="Reading the archive" onRetry={() => void sync.archive()}>
        {groups.length === 0 && (
          <div class="empty">
            <h2>The archive is empty</h2>
            <p>A session that you archive keeps its messages, and can be resumed from here.</p>
          </div>
        )}
        <Groups groups={groups} />
      </Read>
    </div>
  );
}
