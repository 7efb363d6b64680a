/** The archived sessions. */

import { useEffect } from 'preact/hooks';
import { sync } from '../hub.ts';
import { grouped, isArchived } from '../state/sessions.ts';
import { state } from '../state/store.ts';
import { Read, shortPath } from '../ui/pieces.tsx';
import { SessionRow } from './session-list.tsx';

/** The view. Read anew whenever it is opened. */
export function Archive() {
  useEffect(() => void sync.archive(), []);
  const { archive, summaries } = state.value;
  const groups = grouped(Object.values(summaries).filter(isArchived));
  return (
    <div class="page" tabIndex={0} role="region" aria-label="Archived sessions">
      <div class="page-head">
        <h1>Archive</h1>
      </div>
      <Read reading={archive} label="Reading the archive" onRetry={() => void sync.archive()}>
        {groups.length === 0 && (
          <div class="empty">
            <h2>The archive is empty</h2>
            <p>A session that you archive keeps its messages, and can be resumed from here.</p>
          </div>
        )}
        {groups.map((group) => (
          <section key={group.key} aria-label={`${group.host}, ${group.path}`}>
            <h2 class="group-head archive-head">
              <span class="mono ellipsis">{shortPath(group.path)}</span>
              <span class="ellipsis">{group.host}</span>
            </h2>
            <ul role="list">
              {group.sessions.map((session) => (
                <li key={session.id}>
                  <SessionRow session={session} />
                </li>
              ))}
            </ul>
          </section>
        ))}
      </Read>
    </div>
  );
}
