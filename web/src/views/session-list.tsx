/** The sessions by machine and directory, with what each is doing. */

import './session-list.css';
import { signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import type { SessionSummary } from '../api/types.ts';
import { sync } from '../hub.ts';
import { type Group, grouped, isArchived, matches, titleOf } from '../state/sessions.ts';
import { namespace, reading, summaries } from '../state/store.ts';
import { ago, Read, shortPath } from '../ui/pieces.tsx';
import { Search } from '../ui/search.tsx';

/** What is searched for, and how far the list is scrolled: a phone shows it again after each session. */
const query = signal('');
let scrolled = 0;

/** The list with its search. */
export function SessionList() {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (place.current) place.current.scrollTop = scrolled;
  }, []);
  const wanted = query.value.trim();
  const all = Object.values(summaries.value).filter((one) => !isArchived(one));
  const groups = grouped(wanted === '' ? all : all.filter((one) => matches(one, wanted)));
  return (
    <>
      <header class="list-head">
        <div class="spread">
          <h1>Sessions</h1>
          <span class="chip mono" title="Namespace">
            {namespace.value}
          </span>
        </div>
        <Search
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
        class="list"
        ref={place}
        tabIndex={0}
        role="region"
        aria-label="Sessions by directory"
        onScroll={({ currentTarget }) => {
          scrolled = currentTarget.scrollTop;
        }}
      >
        <Read reading={reading.list.value} label="Reading the sessions" onRetry={() => void sync.list()}>
          <Groups groups={groups} />
          {groups.length === 0 && (all.length === 0 ? <NoSessions /> : <p class="empty">No session matches “{wanted}”.</p>)}
        </Read>
      </div>
    </>
  );
}

/** Sessions under the directories and machines that they are on. */
export function Groups({ groups }: { groups: Group[] }) {
  return (
    <>
      {groups.map(({ key, path, host, sessions }) => (
        <div key={key} class="group">
          <h2 class="group-head">
            <span class="mono ellipsis" title={path}>
              {shortPath(path)}
            </span>
            <span class="ellipsis">{host}</span>
          </h2>
          <ul role="list">
            {sessions.map((session) => (
              <li key={session.id}>
                <SessionRow session={session} />
              </li>
            ))}
          </ul>
        </div>
      ))}
    </>
  );
}

function NoSessions() {
  return (
    <div class="empty">
      <h2>No session yet</h2>
      <p>Connect an agent from the project's directory, and it appears here:</p>
      <pre tabIndex={0}>
        <code>{`npm run agent -- \\\n  --dir PATH${location.port === '8787' ? '' : ` \\\n  --hub ${location.origin}`}`}</code>
      </pre>
    </div>
  );
}

/** What a session is doing, as one word. */
function activityOf({ active, thinking, pendingRequestsCount }: SessionSummary): 'asks' | 'thinking' | 'active' | 'inactive' {
  if (!active) return 'inactive';
  if (pendingRequestsCount > 0) return 'asks';
  return thinking ? 'thinking' : 'active';
}

/** A session's line. */
function SessionRow({ session }: { session: SessionSummary }) {
  const [path] = useLocation();
  const { id, metadata, todoProgress, pendingRequestsCount, updatedAt, activeAt } = session;
  const activity = activityOf(session);
  const isHere = path === `/sessions/${id}` || path.startsWith(`/sessions/${id}/`);
  const words = {
    asks: pendingRequestsCount === 1 ? 'waits for your answer' : `${pendingRequestsCount} wait for your answer`,
    thinking: 'working',
    active: 'ready',
    inactive: 'ended',
  }[activity];
  return (
    <Link href={`/sessions/${id}`} class="session-row" data-activity={activity} aria-current={isHere ? 'page' : undefined}>
      <span class="signal" aria-hidden />
      <span class="session-title ellipsis name">{titleOf(session)}</span>
      <span class="session-time muted">{ago(Math.max(updatedAt, activeAt))}</span>
      <span class="session-about">
        <span class={activity === 'asks' ? 'chip warn' : activity === 'thinking' ? 'chip accent' : activity === 'active' ? 'chip ok' : 'chip'}>{words}</span>
        {metadata?.worktree?.branch && <span class="mono ellipsis">{metadata.worktree.branch}</span>}
        {metadata?.flavor && <span class="ellipsis">{metadata.flavor}</span>}
        {todoProgress && (
          <span class="todo-progress" role="img" aria-label={`${todoProgress.completed} of ${todoProgress.total} todos done`}>
            {todoProgress.completed}/{todoProgress.total}
          </span>
        )}
      </span>
    </Link>
  );
}
