/** The session list: sessions grouped by directory and machine, with their activity and a search. */

import './session-list.css';
import { type Signal, signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import type { SessionSummary } from '../api/types.ts';
import { sync } from '../state/hub-client.ts';
import {
  groupSessions,
  hasEnded,
  hasFailed,
  isArchived,
  isInTerminal,
  limitGroups,
  matchesQuery,
  type SessionGroup,
  sessionTitle,
  sortAsBefore,
  sortSessions,
} from '../state/sessions.ts';
import { listSavedAt, loadStates, namespace, summaries } from '../state/store.ts';
import { shortenPath } from '../content/paths.ts';
import { formatAge } from '../ui/format.ts';
import { LoadGate } from '../ui/loading.tsx';
import { SearchField } from '../ui/search.tsx';
import { usePointerActivity } from '../ui/use-pointer-activity.ts';

/** The number of rows that are rendered at first, and that are added whenever the end of the list comes into view. */
export const ROWS_PER_STEP = 1000;

/** The query, the number of rows and the scroll position are not component state: a phone unmounts the list while a session is open. */
const query = signal('');
const rowLimit = signal(ROWS_PER_STEP);
let scrollTop = 0;

export function SessionList() {
  const list = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (list.current) list.current.scrollTop = scrollTop;
  }, []);
  const trimmedQuery = query.value.trim();
  const listed = Object.values(summaries.value).filter((session) => !isArchived(session));
  const sorted = useSteadyOrder(
    trimmedQuery === '' ? listed : listed.filter((session) => matchesQuery(session, trimmedQuery)),
    trimmedQuery,
    usePointerActivity(list),
  );
  const groups = groupSessions(sorted);
  const savedAt = listSavedAt.value;
  return (
    <>
      <header class="list-head">
        <div class="spread">
          <h1>Sessions</h1>
          <span class="chip mono" title="Namespace">
            {namespace.value}
          </span>
        </div>
        <SearchField
          id="search"
          label="Search sessions"
          placeholder="Search sessions"
          value={query.value}
          onChange={(next) => {
            query.value = next;
          }}
        />
      </header>
      <div
        class={savedAt === null ? 'list' : 'list stale'}
        ref={list}
        tabIndex={0}
        role="region"
        aria-label="Sessions by directory"
        onScroll={({ currentTarget }) => {
          scrollTop = currentTarget.scrollTop;
        }}
      >
        <LoadGate
          loadState={savedAt === null ? loadStates.list.value : { status: 'ready' }}
          label="Loading the sessions"
          onRetry={() => void sync.fetchSessions()}
        >
          <SessionGroups groups={groups} rowLimit={rowLimit} />
          {groups.length === 0 && (listed.length === 0 ? <NoSessions /> : <p class="empty">No session matches “{trimmedQuery}”.</p>)}
        </LoadGate>
      </div>
    </>
  );
}

/** Sorts sessions. While the pointer is active in the list, sessions keep their order, and new sessions are not shown. */
function useSteadyOrder(sessions: SessionSummary[], trimmedQuery: string, isInUse: boolean): SessionSummary[] {
  const previous = useRef<{ trimmedQuery: string; ids: string[] } | null>(null);
  const keepsOrder = isInUse && previous.current?.trimmedQuery === trimmedQuery && previous.current.ids.length > 0;
  const sorted = keepsOrder ? sortAsBefore(sessions, previous.current?.ids ?? []) : sortSessions(sessions);
  if (!keepsOrder) previous.current = { trimmedQuery, ids: sorted.map(({ id }) => id) };
  return sorted;
}

/** Session rows under a heading for each directory and machine. Renders `rowLimit` rows, and more when the end comes into view. */
export function SessionGroups({ groups, rowLimit }: { groups: SessionGroup[]; rowLimit: Signal<number> }) {
  const end = useRef<HTMLButtonElement>(null);
  const showMore = () => {
    rowLimit.value += ROWS_PER_STEP;
  };
  const limited = limitGroups(groups, rowLimit.value);
  const hasMore = limited.length < groups.length || limited.at(-1)?.sessions.length !== groups.at(-1)?.sessions.length;
  useEffect(() => {
    if (!end.current) return;
    const observer = new IntersectionObserver((entries) => entries.some(({ isIntersecting }) => isIntersecting) && showMore());
    observer.observe(end.current);
    return () => observer.disconnect();
  }, [hasMore, rowLimit.value]);
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
      {hasMore && (
        <button type="button" class="button quiet" ref={end} onClick={showMore}>
          Show more sessions
        </button>
      )}
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

function NoSessions() {
  const hub = location.port === '8787' ? '' : ` \\\n  --hub ${location.origin}`;
  // Without a token, the command asks for the token, or for a local hub uses the token of the namespace `default`.
  const isLocal = ['localhost', '127.0.0.1', '[::1]'].includes(location.hostname);
  const token = isLocal && namespace.value !== 'default' ? ' \\\n  --token-file FILE' : '';
  return (
    <div class="empty">
      <h2>No sessions yet</h2>
      <p>Start an agent in a project directory to create one:</p>
      <pre tabIndex={0}>
        <code>{`npm run agent -- \\\n  --agent claude \\\n  --dir PATH${hub}${token}`}</code>
      </pre>
    </div>
  );
}

type Activity = 'waiting' | 'thinking' | 'failed' | 'active' | 'inactive';

function getActivity(session: SessionSummary): Activity {
  if (!session.active) return 'inactive';
  if (session.pendingRequestsCount > 0) return 'waiting';
  if (session.thinking) return 'thinking';
  return hasFailed(session) ? 'failed' : 'active';
}

const CHIPS: Record<Activity, string> = {
  waiting: 'chip warn',
  thinking: 'chip accent',
  failed: 'chip danger',
  active: 'chip ok',
  inactive: 'chip',
};

function SessionRow({ session }: { session: SessionSummary }) {
  const [path] = useLocation();
  const { id, metadata, todoProgress, pendingRequestsCount, updatedAt } = session;
  const activity = getActivity(session);
  const agentName = metadata?.agentName || metadata?.flavor;
  const isOpen = path === `/sessions/${id}` || path.startsWith(`/sessions/${id}/`);
  const label = {
    waiting: pendingRequestsCount === 1 ? '1 request pending' : `${pendingRequestsCount} requests pending`,
    thinking: 'working',
    failed: 'failed',
    active: isInTerminal(session) ? 'in the terminal' : 'ready',
    inactive: hasEnded(session) ? 'ended' : 'not connected',
  }[activity];
  return (
    <Link href={`/sessions/${id}`} class="session-row" data-activity={activity} aria-current={isOpen ? 'page' : undefined}>
      <span class="activity-bar" aria-hidden />
      <span class="session-title ellipsis name">{sessionTitle(session)}</span>
      <span class="session-time muted">{formatAge(updatedAt)}</span>
      <span class="session-details">
        <span class={CHIPS[activity]}>{label}</span>
        {session.pinned && metadata?.path && <span class="mono ellipsis">{shortenPath(metadata.path)}</span>}
        {session.pinned && metadata?.host && <span class="ellipsis">{metadata.host}</span>}
        {metadata?.worktree?.branch && <span class="mono ellipsis">{metadata.worktree.branch}</span>}
        {agentName && <span class="ellipsis">{agentName}</span>}
        {todoProgress && (
          <span class="todo-progress" role="img" aria-label={`${todoProgress.completed} of ${todoProgress.total} todos done`}>
            {todoProgress.completed}/{todoProgress.total}
          </span>
        )}
      </span>
    </Link>
  );
}
