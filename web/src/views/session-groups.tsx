/** Session rows under a heading for each directory and machine. */

import type { Signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { limitGroups, type SessionGroup } from '../state/sessions.ts';
import { shortenPath } from '../content/paths.ts';
import { ShowMore } from '../ui/show-more.tsx';
import { SessionRow } from './session-row.tsx';

/** A row is at least this high, in pixels. */
const MIN_ROW_HEIGHT = 44;
/** Returns how many rows are rendered first, so that a slow phone shows the list early: those up to the end of the screen. */
export const rowsUpTo = (scrollTop: number) => Math.ceil((scrollTop + innerHeight) / MIN_ROW_HEIGHT);
/** The list grows to this many rows by itself. Whenever its end comes into view, it grows by the same number of rows. */
const ROWS_PER_STEP = 1000;

/** Renders the first `rowLimit` rows, and raises `rowLimit` step by step. At first, `rowLimit` must be at least {@link rowsUpTo} the scroll position. */
export function SessionGroups({ groups, rowLimit }: { groups: SessionGroup[]; rowLimit: Signal<number> }) {
  // Runs after each rendering. Doubling keeps each rendering short, so that a slow phone reacts to touches.
  useEffect(() => {
    if (rowLimit.value >= ROWS_PER_STEP) return undefined;
    const timer = setTimeout(() => {
      rowLimit.value = Math.min(2 * rowLimit.value, ROWS_PER_STEP);
    });
    return () => clearTimeout(timer);
  }, [rowLimit.value]);
  const showMore = () => {
    rowLimit.value += ROWS_PER_STEP;
  };
  const limited = limitGroups(groups, rowLimit.value);
  const hasMore = limited.length < groups.length || limited.at(-1)?.sessions.length !== groups.at(-1)?.sessions.length;
  return (
    <>
      {limited.map(({ key, isPinned, path, host, sessions }) => (
        <div key={key} class="group">
          {isPinned ? <h2 class="group-head">Pinned</h2> : <GroupHead path={path} host={host} />}
          <ul role="list">
            {sessions.map((session) => (
              <li key={session.id}>
                <SessionRow session={session} />
              </li>
            ))}
          </ul>
        </div>
      ))}
      {hasMore && <ShowMore label="Show more sessions" rowLimit={rowLimit.value} onShow={showMore} />}
    </>
  );
}

function GroupHead({ path, host }: { path: string; host: string }) {
  return (
    <h2 class="group-head">
      <span class="mono ellipsis" title={path}>
        {shortenPath(path)}
      </span>
      <span class="ellipsis">{host}</span>
    </h2>
  );
}
