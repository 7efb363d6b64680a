/** Pure functions on sessions: summaries for the list, updates, titles, groups and search. */

import type { Session, SessionSummary } from '../api/types.ts';

/** Creates the list's summary of a full session. */
export function toSummary(session: Session): SessionSummary {
  const { metadata, todos, agentState, permissionMode, modelMode } = session;
  return {
    id: session.id,
    active: session.active,
    thinking: session.thinking,
    activeAt: session.activeAt,
    updatedAt: session.updatedAt,
    createdAt: session.createdAt,
    metadata: summaryMetadata(metadata),
    todoProgress: countTodos(todos),
    pendingRequestsCount: Object.keys(agentState?.requests ?? {}).length,
    ...(permissionMode === undefined ? {} : { permissionMode }),
    ...(modelMode === undefined ? {} : { modelMode }),
  };
}

/** Applies an update, which has fields of a full session, to a summary. */
export function mergeSummary(summary: SessionSummary, data: Partial<Session>): SessionSummary {
  const { active, thinking, activeAt, updatedAt, permissionMode, modelMode } = data;
  const present = { active, thinking, activeAt, updatedAt, permissionMode, modelMode };
  const changed = Object.fromEntries(Object.entries(present).filter(([, value]) => value !== undefined));
  return {
    ...summary,
    ...changed,
    ...('metadata' in data ? { metadata: summaryMetadata(data.metadata ?? null) } : {}),
    ...('todos' in data ? { todoProgress: countTodos(data.todos) } : {}),
    ...('agentState' in data ? { pendingRequestsCount: Object.keys(data.agentState?.requests ?? {}).length } : {}),
  };
}

/** Applies an update to a session. Its completed requests are added to the known ones: events contain only changed requests. */
export function mergeSession(session: Session, data: Partial<Session>): Session {
  if (!data.agentState) return { ...session, ...data };
  const completedRequests = { ...session.agentState?.completedRequests, ...data.agentState.completedRequests };
  return { ...session, ...data, agentState: { ...data.agentState, completedRequests } };
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

/** The last segment of a path, or all of it. */
function baseName(path: string): string {
  return path.split(/[\\/]/).filter(Boolean).at(-1) ?? path;
}

/** The common part of a session and a summary. */
interface TitledSession {
  id: string;
  metadata: { name?: string; path: string; summary?: { text?: string }; lifecycleState?: string } | null;
}

/** Returns the session's name, or else its summary, its directory's name, or the start of its id. */
export function sessionTitle({ id, metadata }: TitledSession): string {
  return metadata?.name || metadata?.summary?.text || (metadata?.path && baseName(metadata.path)) || id.slice(0, 8);
}

export function isArchived({ metadata }: TitledSession): boolean {
  return metadata?.lifecycleState === 'archived';
}

/** The sessions of one directory on one machine. */
export interface SessionGroup {
  key: string;
  host: string;
  path: string;
  sessions: SessionSummary[];
}

/**
 * Groups sessions by machine and directory. Sessions are sorted by active first, then by last update; groups by their first
 * session.
 */
export function groupSessions(summaries: Iterable<SessionSummary>): SessionGroup[] {
  const sorted = [...summaries].sort((a, b) => Number(b.active) - Number(a.active) || b.updatedAt - a.updatedAt || (a.id < b.id ? 1 : -1));
  const groups = new Map<string, SessionGroup>();
  for (const session of sorted) {
    const host = session.metadata?.host || 'unknown machine';
    // A worktree belongs to the group of its repository.
    const path = session.metadata?.worktree?.basePath ?? session.metadata?.path ?? '';
    const key = `${host}\0${path}`;
    const group = groups.get(key) ?? { key, host, path, sessions: [] };
    group.sessions.push(session);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** Returns the first sessions of the groups, at most `count`. */
export function limitGroups(groups: SessionGroup[], count: number): SessionGroup[] {
  const limited: SessionGroup[] = [];
  let rest = count;
  for (const group of groups) {
    if (rest <= 0) break;
    limited.push(group.sessions.length > rest ? { ...group, sessions: group.sessions.slice(0, rest) } : group);
    rest -= group.sessions.length;
  }
  return limited;
}

/** Whether a session's title, directory, machine, branch or agent contain all words of a query. */
export function matchesQuery(session: SessionSummary, query: string): boolean {
  const { metadata } = session;
  const text = [sessionTitle(session), metadata?.path, metadata?.host, metadata?.worktree?.branch, metadata?.flavor, metadata?.agentName].join(' ').toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
