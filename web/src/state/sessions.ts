/** Sessions as the list shows them, and what an event changes in one. */

import type { Session, SessionSummary } from '../api/types.ts';

/** A session's line in the list, made of the whole. */
export function summaryOf(session: Session): SessionSummary {
  const { metadata, todos, agentState, permissionMode, modelMode } = session;
  return {
    id: session.id,
    active: session.active,
    thinking: session.thinking,
    activeAt: session.activeAt,
    updatedAt: session.updatedAt,
    createdAt: session.createdAt,
    metadata: summaryMetadata(metadata),
    todoProgress: progressOf(todos),
    pendingRequestsCount: Object.keys(agentState?.requests ?? {}).length,
    ...(permissionMode === undefined ? {} : { permissionMode }),
    ...(modelMode === undefined ? {} : { modelMode }),
  };
}

/** The line after a change: `data` has fields of a whole session. */
export function changedSummary(summary: SessionSummary, data: Partial<Session>): SessionSummary {
  const { active, thinking, activeAt, updatedAt, permissionMode, modelMode } = data;
  const given = { active, thinking, activeAt, updatedAt, permissionMode, modelMode };
  const changed = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  return {
    ...summary,
    ...changed,
    ...('metadata' in data ? { metadata: summaryMetadata(data.metadata ?? null) } : {}),
    ...('todos' in data ? { todoProgress: progressOf(data.todos) } : {}),
    ...('agentState' in data ? { pendingRequestsCount: Object.keys(data.agentState?.requests ?? {}).length } : {}),
  };
}

/** The session after a change. Completed requests are only added to: an event brings those that are new or changed. */
export function changedSession(session: Session, data: Partial<Session>): Session {
  if (!data.agentState) return { ...session, ...data };
  const completedRequests = { ...session.agentState?.completedRequests, ...data.agentState.completedRequests };
  return { ...session, ...data, agentState: { ...data.agentState, completedRequests } };
}

function summaryMetadata(metadata: Session['metadata']): SessionSummary['metadata'] {
  if (!metadata) return null;
  const { name, path, host, machineId, summary, flavor, worktree, lifecycleState } = metadata;
  return {
    path,
    host,
    flavor: flavor ?? null,
    ...(name === undefined ? {} : { name }),
    ...(machineId === undefined ? {} : { machineId }),
    ...(summary?.text === undefined ? {} : { summary: { text: summary.text } }),
    ...(worktree === undefined ? {} : { worktree }),
    ...(lifecycleState === undefined ? {} : { lifecycleState }),
  };
}

function progressOf(todos: Session['todos']): SessionSummary['todoProgress'] {
  if (!todos || todos.length === 0) return null;
  return { completed: todos.filter(({ status }) => status === 'completed').length, total: todos.length };
}

/** The last segment of a path, or all of it. */
function baseName(path: string): string {
  return path.split(/[\\/]/).filter(Boolean).at(-1) ?? path;
}

/** What a session's name is made of, in a line of the list as in the whole. */
interface Named {
  id: string;
  metadata: { name?: string; path: string; summary?: { text?: string }; lifecycleState?: string } | null;
}

/** What to call a session: its name, else what it is about, else its directory, else the beginning of its id. */
export function titleOf({ id, metadata }: Named): string {
  return metadata?.name || metadata?.summary?.text || (metadata?.path && baseName(metadata.path)) || id.slice(0, 8);
}

/** Whether a session is out of the way. */
export function isArchived({ metadata }: Named): boolean {
  return metadata?.lifecycleState === 'archived';
}

/** Sessions of one directory on one machine. */
export interface Group {
  key: string;
  host: string;
  path: string;
  sessions: SessionSummary[];
}

/**
 * The sessions by machine and directory. Active ones come first, then what changed last; a group stands where its
 * first session does.
 */
export function grouped(summaries: Iterable<SessionSummary>): Group[] {
  const sorted = [...summaries].sort((a, b) => Number(b.active) - Number(a.active) || b.updatedAt - a.updatedAt || (a.id < b.id ? 1 : -1));
  const groups = new Map<string, Group>();
  for (const session of sorted) {
    const host = session.metadata?.host ?? 'unknown machine';
    // A worktree belongs to the repository that it was made of.
    const path = session.metadata?.worktree?.basePath ?? session.metadata?.path ?? '';
    const key = `${host}\0${path}`;
    const group = groups.get(key) ?? { key, host, path, sessions: [] };
    group.sessions.push(session);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** Whether a session has all of these words somewhere in its title, directory or machine. */
export function matches(session: SessionSummary, query: string): boolean {
  const { metadata } = session;
  const text = [titleOf(session), metadata?.path, metadata?.host, metadata?.worktree?.branch, metadata?.flavor].join(' ').toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
