/** Pure functions on sessions: summaries for the list, updates, titles, groups and search. */

import type { Session, SessionSummary } from '../api/types.ts';
import { escapeText } from '../content/escape-invisible.ts';
import { getOwn } from './get-own.ts';

/** Creates the summary of a full session for the list. */
export function toSummary(session: Session): SessionSummary {
  const { metadata, todos, agentState } = session;
  const summary: SessionSummary = {
    id: session.id,
    active: session.active,
    thinking: session.thinking,
    activeAt: session.activeAt,
    updatedAt: session.updatedAt,
    createdAt: session.createdAt,
    metadata: summaryMetadata(metadata),
    todoProgress: countTodos(todos),
    pendingRequestsCount: Object.keys(agentState?.requests ?? {}).length,
  };
  return mergeOptional(summary, session);
}

/** Optional fields that a summary has in common with a full session. In an event, `null`, `false` or 0 removes a field. */
const OPTIONAL_FIELDS = [
  'permissionMode',
  'modelMode',
  'pinned',
  'thinkingAt',
  'lastMessageAt',
  'endedAt',
  'unseenSince',
  'heldMessagesCount',
  'activity',
  'activityAt',
  'disconnected',
  'muted',
  'color',
] as const;

/** Applies the optional fields of a session or an update. Removes `activity` when the agent stops working. */
function mergeOptional<T extends object>(target: T, data: Partial<Session>): T {
  const isRemoved = (name: (typeof OPTIONAL_FIELDS)[number]) => name in data || (name === 'activity' && data.thinking === false);
  const removed = OPTIONAL_FIELDS.filter(isRemoved) as readonly string[];
  const remaining = Object.entries(target).filter(([name]) => !removed.includes(name));
  const added = OPTIONAL_FIELDS.map((name) => [name, data[name]] as const).filter(([, value]) => value);
  return Object.fromEntries([...remaining, ...added]) as T;
}

/** Applies an update, which has fields of a full session, to a summary. */
export function mergeSummary(summary: SessionSummary, data: Partial<Session>): SessionSummary {
  const { active, thinking, activeAt, updatedAt } = data;
  const present = { active, thinking, activeAt, updatedAt };
  const changed = Object.fromEntries(Object.entries(present).filter(([, value]) => value !== undefined));
  const merged: SessionSummary = {
    ...summary,
    ...changed,
    ...('metadata' in data ? { metadata: summaryMetadata(data.metadata ?? null) } : {}),
    ...('todos' in data ? { todoProgress: countTodos(data.todos) } : {}),
    ...('agentState' in data ? { pendingRequestsCount: Object.keys(data.agentState?.requests ?? {}).length } : {}),
  };
  return mergeOptional(merged, data);
}

/** Applies an update to a session. Keeps the known completed requests, because an event contains only the changed requests. */
export function mergeSession(session: Session, data: Partial<Session>): Session {
  const merged = mergeOptional({ ...session, ...data }, data);
  if (!data.agentState) return merged;
  const completedRequests = { ...session.agentState?.completedRequests, ...data.agentState.completedRequests };
  return { ...merged, agentState: { ...data.agentState, completedRequests } };
}

/** The colours that a person can choose for a session. Each has a contrast of 3:1 or more in both themes. */
export const COLORS: Readonly<Record<string, string>> = {
  red: '#d93a3a',
  orange: '#c8630f',
  yellow: '#a08400',
  green: '#2e8f4e',
  blue: '#3b7ddd',
  purple: '#9257d6',
  grey: '#7f7f7f',
};

/** Returns the CSS colour of a session's `color`: a name of {@link COLORS}, or `#rrggbb`. Undefined for other text, which is not shown. */
export function cssColor(color: string | null | undefined): string | undefined {
  if (!color) return undefined;
  return /^#[\da-f]{6}$/i.test(color) ? color : getOwn(COLORS, color);
}

function summaryMetadata(metadata: Session['metadata']): SessionSummary['metadata'] {
  if (!metadata) return null;
  const { name, path, host, machineId, summary, flavor, agentName, worktree, lifecycleState } = metadata;
  return {
    path,
    host,
    flavor: flavor ?? null,
    ...(name === undefined ? {} : { name }),
    ...(machineId === undefined ? {} : { machineId }),
    ...(summary?.text === undefined ? {} : { summary: { text: summary.text } }),
    ...(agentName === undefined ? {} : { agentName }),
    ...(worktree === undefined ? {} : { worktree }),
    ...(lifecycleState === undefined ? {} : { lifecycleState }),
  };
}

function countTodos(todos: Session['todos']): SessionSummary['todoProgress'] {
  if (!todos || todos.length === 0) return null;
  return { completed: todos.filter(({ status }) => status === 'completed').length, total: todos.length };
}

/** Returns the last segment of a path; the whole path if it has no segments. */
function baseName(path: string): string {
  return path.split(/[\\/]/).filter(Boolean).at(-1) ?? path;
}

/** The common part of a session and a summary. */
interface TitledSession {
  id: string;
  metadata: { name?: string; path: string; summary?: { text?: string }; lifecycleState?: string } | null;
}

/**
 * Returns the first available title: the name, the summary, "New session" without messages, the directory's name, or the id's start.
 * Invisible characters are escaped.
 */
export function sessionTitle({ id, metadata }: TitledSession): string {
  return escapeText(
    metadata?.name ||
      metadata?.summary?.text ||
      (isUnused({ metadata }) && 'New session') ||
      (metadata?.path && baseName(metadata.path)) ||
      id.slice(0, 8),
  );
}

/** Whether the CLI says that the session has no messages. A machine keeps one such session ready in its directory. */
const isUnused = ({ metadata }: Pick<TitledSession, 'metadata'>): boolean => metadata?.lifecycleState === 'initializing';

/** Whether the agent of an active session could not be started. */
export const hasFailed = ({ active, metadata }: Pick<TitledSession, 'metadata'> & Pick<Session, 'active'>): boolean =>
  active && metadata?.lifecycleState === 'failed';

export function isArchived({ metadata }: TitledSession): boolean {
  return metadata?.lifecycleState === 'archived';
}

/** Whether the terminal is in control of the agent. A summary has no `mode`, so its lifecycle state decides. */
export function isInTerminal({ mode, metadata }: TitledSession & { mode?: Session['mode'] }): boolean {
  return mode === undefined ? metadata?.lifecycleState === 'paused' : mode === 'local';
}

/** The hub makes a session inactive when its CLI has been silent for this long. */
const SESSION_TIMEOUT_MS = 30_000;
const ENDED_STATES = ['archived', 'completed', 'aborted'];

/**
 * Whether the process of an inactive session has ended. Otherwise only the connection was lost, for example because the machine
 * sleeps. A session without `endedAt` may be of an older hub, which sets `updatedAt` when a session becomes inactive:
 * - If the CLI has reported the end, `updatedAt` is close to `activeAt`.
 * - If the CLI was silent, `updatedAt` is at least {@link SESSION_TIMEOUT_MS} later.
 *
 * A later change, such as a rename, makes an end look like a lost connection. A lost connection never looks like an end.
 */
export function hasEnded({ activeAt, updatedAt, endedAt, metadata }: EndableSession): boolean {
  if (endedAt !== undefined || ENDED_STATES.includes(metadata?.lifecycleState ?? '')) return true;
  return updatedAt - activeAt < SESSION_TIMEOUT_MS;
}

type EndableSession = Pick<TitledSession, 'metadata'> & Pick<Session, 'activeAt' | 'updatedAt' | 'endedAt'>;

/** The sessions of one directory on one machine. */
export interface SessionGroup {
  key: string;
  /** Whether this is the group of pinned sessions, which may be of any machine and directory. */
  isPinned: boolean;
  host: string;
  path: string;
  sessions: SessionSummary[];
}

/**
 * Sorts sessions by these criteria, most important first: pinned, active and used, last message or creation (newest first). Keep-alives
 * change no criterion, so that the rows of working agents stay in place.
 */
export function sortSessions(summaries: Iterable<SessionSummary>): SessionSummary[] {
  const isPinned = (session: SessionSummary) => Number(session.pinned ?? false);
  const isInUse = (session: SessionSummary) => Number(session.active && !isUnused(session));
  const lastMessageAt = (session: SessionSummary) => session.lastMessageAt ?? session.createdAt;
  const compare = (a: SessionSummary, b: SessionSummary) =>
    isPinned(b) - isPinned(a) ||
    isInUse(b) - isInUse(a) ||
    lastMessageAt(b) - lastMessageAt(a) ||
    b.createdAt - a.createdAt ||
    (a.id < b.id ? 1 : -1);
  return [...summaries].sort(compare);
}

/** Sorts sessions in a previous order of ids. Leaves out sessions that the previous order does not contain. */
export function sortAsBefore(summaries: Iterable<SessionSummary>, order: readonly string[]): SessionSummary[] {
  const byId = new Map([...summaries].map((session) => [session.id, session]));
  return order.flatMap((id) => byId.get(id) ?? []);
}

/** Groups sorted sessions: the pinned sessions, and the others by machine and directory. Groups are in the order of their first sessions. */
export function groupSessions(sorted: Iterable<SessionSummary>): SessionGroup[] {
  const groups = new Map<string, SessionGroup>();
  for (const session of sorted) {
    const isPinned = session.pinned ?? false;
    const host = isPinned ? '' : session.metadata?.host || 'unknown machine';
    // A worktree belongs to the group of its repository.
    const path = isPinned ? '' : (session.metadata?.worktree?.basePath ?? session.metadata?.path ?? '');
    const key = `${isPinned}\0${host}\0${path}`;
    const group = groups.get(key) ?? { key, isPinned, host, path, sessions: [] };
    group.sessions.push(session);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** Returns the groups with only their first `count` sessions in total. */
export function limitGroups(groups: SessionGroup[], count: number): SessionGroup[] {
  const limited: SessionGroup[] = [];
  let remaining = count;
  for (const group of groups) {
    if (remaining <= 0) break;
    limited.push(group.sessions.length > remaining ? { ...group, sessions: group.sessions.slice(0, remaining) } : group);
    remaining -= group.sessions.length;
  }
  return limited;
}

/**
 * Whether a session's title, directory, machine, branch or agent contain all words of a query.
 * @param moreWords other words of the session, such as its state
 */
export function matchesQuery(session: SessionSummary, query: string, moreWords = ''): boolean {
  const { metadata } = session;
  const { path, host, worktree, flavor, agentName } = metadata ?? {};
  const text = [sessionTitle(session), path, host, worktree?.branch, flavor, agentName, moreWords].join(' ').toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
