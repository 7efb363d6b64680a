/** The list of sessions: what waits for the user, and all sessions by directory and machine, with filters and a search. */

import './session-list.css';
import { signal } from '@preact/signals';
import { Suspense } from 'preact/compat';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { useLocation } from 'wouter-preact';
import type { SessionSummary } from '../api/types.ts';
import { useAgentNames } from '../state/agent-names.ts';
import { agentLabel } from '../state/catalog.ts';
import { sync } from '../state/hub-client.ts';
import { type Filter, FILTERS, matchesFilter, searchWords } from '../state/session-status.ts';
import { groupSessions, isArchived, matchesQuery, sortAsBefore, sortSessions } from '../state/sessions.ts';
import { isConnected, isPushLost, isStorageShort, listSavedAt, loadStates, summaries, unlistedFailureId } from '../state/store.ts';
import { now } from '../ui/current-time.ts';
import { isWide } from '../ui/device.ts';
import { ErrorNotice, LoadGate } from '../ui/loading.tsx';
import { SearchField } from '../ui/search.tsx';
import { usePointerActivity } from '../ui/use-pointer-activity.ts';
import { AccountSwitcher } from './account-switcher.tsx';
import { FirstRunGate } from './first-run.tsx';
import { InboxSection } from './inbox-section.tsx';
import { lazy } from './lazy.tsx';
import { rowsUpTo, SessionGroups } from './session-groups.tsx';

const ListNotices = lazy(() => import('./list-notices.tsx').then(({ ListNotices }) => ListNotices));

const FILTER_KEY = 'session-filter';

/** The query, the number of rows and the scroll position are outside of the component: a phone unmounts the list while a session is open. */
const query = signal('');
const rowLimit = signal(rowsUpTo(0));
let scrollTop = 0;

/** Kept in the tab, across reloads. */
const filter = signal(FILTERS.find((name) => name === sessionStorage.getItem(FILTER_KEY)) ?? null);

function setFilter(chosen: Filter | null): void {
  filter.value = chosen;
  if (chosen === null) sessionStorage.removeItem(FILTER_KEY);
  else sessionStorage.setItem(FILTER_KEY, chosen);
}

/** The listed sessions, in the order of the list; null while the list is not shown. */
export let shownSessions: SessionSummary[] | null = null;

export function SessionList() {
  const [path] = useLocation();
  const list = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (list.current) list.current.scrollTop = scrollTop;
    return () => {
      shownSessions = null;
      // The list is rendered again with the rows above and in the view. The others are added in steps.
      rowLimit.value = Math.min(rowLimit.value, rowsUpTo(scrollTop));
    };
  }, []);
  const isInUse = usePointerActivity(list);
  const trimmedQuery = query.value.trim();
  const listed = Object.values(summaries.value).filter((session) => !isArchived(session));
  useAgentNames(listed);
  const found = listed.filter(
    (session) =>
      (filter.value === null || matchesFilter(session, filter.value, now.value)) &&
      (trimmedQuery === '' || matchesQuery(session, trimmedQuery, wordsOf(session))),
  );
  const sorted = useSteadyOrder(found, `${filter.value ?? ''} ${trimmedQuery}`, isInUse);
  const groups = groupSessions(sorted);
  shownSessions = groups.flatMap(({ sessions }) => sessions);
  const savedAt = listSavedAt.value;
  const listLoad = loadStates.list.value;
  const retry = () => void sync.refetchShown();
  const isSearch = trimmedQuery !== '' || filter.value !== null;
  return (
    <>
      <header class="list-head">
        <div class="spread">
          <h1>Sessions</h1>
          <AccountSwitcher />
        </div>
        <SearchField
          id="search"
          label="Search sessions"
          placeholder="Search sessions"
          value={query.value}
          onChange={(text) => {
            query.value = text;
          }}
        />
        <Filters />
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
          loadState={savedAt === null ? loadStates.listAndInbox.value : { status: 'ready' }}
          label="Loading the sessions"
          onRetry={retry}
        >
          {/* The view of the inbox shows the same items. */}
          {path !== '/inbox' && !isSearch && <InboxSection isInUse={isInUse} />}
          <SessionGroups groups={groups} rowLimit={rowLimit} />
          {groups.length === 0 && listed.length > 0 && <NothingFound trimmedQuery={trimmedQuery} />}
          {isWide.value ? listed.length === 0 && <NoSessions /> : <FirstRunGate isEmpty={listed.length === 0} />}
        </LoadGate>
      </div>
      <div role="status" class="list-notices">
        {savedAt !== null && listLoad.status === 'failed' && isConnected.value && <ErrorNotice text={listLoad.error} onRetry={retry} />}
        {(isStorageShort.value || isPushLost.value || unlistedFailureId.value !== undefined) && (
          <Suspense fallback={null}>
            <ListNotices />
          </Suspense>
        )}
      </div>
    </>
  );
}

function Filters() {
  return (
    <div class="filters" role="group" aria-label="Show only">
      {FILTERS.map((name) => (
        <button
          key={name}
          type="button"
          class="filter"
          aria-pressed={filter.value === name}
          onClick={() => setFilter(filter.value === name ? null : name)}
        >
          {name.charAt(0).toUpperCase() + name.slice(1)}
        </button>
      ))}
    </div>
  );
}

/** Returns what a search finds besides the session's own texts: the agent's name, and what the session does. */
const wordsOf = (session: SessionSummary) => `${agentLabel(session.metadata) ?? ''} ${searchWords(session, now.value)}`;

function NothingFound({ trimmedQuery }: { trimmedQuery: string }) {
  const filtered = filter.value === null ? 'session' : `${filter.value} session`;
  return (
    <div class="empty">
      <p>{trimmedQuery === '' ? `No ${filtered}.` : `No ${filtered} matches “${trimmedQuery}”.`}</p>
      {filter.value !== null && (
        <button type="button" class="button" onClick={() => setFilter(null)}>
          Show all sessions
        </button>
      )}
    </div>
  );
}

/**
 * Sorts sessions. While the pointer is active in the list, sessions keep their order, and new sessions are not shown.
 * @param selection the filter and the query
 */
function useSteadyOrder(sessions: SessionSummary[], selection: string, isInUse: boolean): SessionSummary[] {
  const previous = useRef<{ selection: string; ids: string[] } | null>(null);
  const keepsOrder = isInUse && previous.current?.selection === selection && previous.current.ids.length > 0;
  const sorted = keepsOrder ? sortAsBefore(sessions, previous.current?.ids ?? []) : sortSessions(sessions);
  if (!keepsOrder) previous.current = { selection, ids: sorted.map(({ id }) => id) };
  return sorted;
}

function NoSessions() {
  return (
    <div class="empty">
      <h2>No sessions yet</h2>
      <p>Connect a computer, then start the first session.</p>
    </div>
  );
}
