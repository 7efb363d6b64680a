/** The status of a session in words: what the session does, and since when. */

import type { Session, SessionSummary } from '../api/types.ts';
import { hasEnded, hasFailed, isArchived, isInTerminal } from './sessions.ts';

/** `stalled`: the agent works, but has shown no sign of progress for {@link STALLED_MS}. `offline`: the CLI lost its connection. */
export type Activity = 'waiting' | 'working' | 'stalled' | 'failed' | 'terminal' | 'ready' | 'offline' | 'ended';

/** A working agent is `stalled` after this time without a message, an event or a change of its activity. */
export const STALLED_MS = 10 * 60_000;

const MINUTE_MS = 60_000;

type SessionForStatus = Pick<
  SessionSummary,
  | 'id'
  | 'active'
  | 'disconnected'
  | 'thinking'
  | 'thinkingAt'
  | 'activity'
  | 'activityAt'
  | 'activeAt'
  | 'updatedAt'
  | 'lastMessageAt'
  | 'endedAt'
> & { metadata: Session['metadata'] | SessionSummary['metadata']; mode?: Session['mode'] };

/** Returns what a session does. `pendingCount`: the number of its pending requests. */
function activityOf(session: SessionForStatus, pendingCount: number, now: number): Activity {
  if (!session.active) return isArchived(session) || hasEnded(session) ? 'ended' : 'offline';
  if (session.disconnected) return 'offline';
  if (pendingCount > 0) return 'waiting';
  if (session.thinking) return now - lastProgressAt(session) >= STALLED_MS ? 'stalled' : 'working';
  if (hasFailed(session)) return 'failed';
  return isInTerminal(session) ? 'terminal' : 'ready';
}

/** Returns when a working agent last sent a message or an event, or changed its activity. Keep-alives are no sign of progress. */
const lastProgressAt = ({ thinkingAt = 0, lastMessageAt = 0, activityAt = 0, updatedAt }: SessionForStatus) =>
  Math.max(thinkingAt, lastMessageAt, activityAt, updatedAt);

export interface Status {
  activity: Activity;
  /** Such as "working 4 min". */
  text: string;
  /** What the agent does now, such as "npm test". */
  detail?: string;
  /** For how long a ready agent has had nothing to do, such as "idle 12 min". */
  idle?: string;
}

interface Context {
  now: number;
  formatTime: (time: number) => string;
  /** Whether the session's machine is connected. If it is, an offline session is "not connected" instead of "<host> offline". */
  isMachineOnline: boolean;
}

export function describeStatus(session: SessionForStatus, pendingCount: number, { now, formatTime, isMachineOnline }: Context): Status {
  const activity = activityOf(session, pendingCount, now);
  const { thinkingAt: thinkingChangedAt, metadata } = session;
  const host = metadata?.host;
  const durationText = thinkingChangedAt ? formatDuration(now - thinkingChangedAt) : '';
  const append = (words: string, more: string) => (more === '' ? words : `${words} ${more}`);
  const detail = session.thinking && session.activity ? { detail: session.activity } : {};
  switch (activity) {
    case 'waiting':
      return { activity, text: pendingCount === 1 ? '1 request pending' : `${pendingCount} requests pending` };
    case 'working':
      return { activity, text: append('working', durationText), ...detail };
    case 'stalled':
      return { activity, text: `no sign of progress for ${formatDuration(now - lastProgressAt(session))}`, ...detail };
    case 'failed':
      return { activity, text: 'failed' };
    case 'terminal':
      return { activity, text: append('in the terminal', host ? `on ${host}` : '') };
    case 'ready':
      // The agent of a session without messages never had anything to do.
      return { activity, text: 'ready', ...(durationText === '' || !session.lastMessageAt ? {} : { idle: `idle ${durationText}` }) };
    case 'offline':
      return { activity, text: `${host && !isMachineOnline ? `${host} offline` : 'not connected'} since ${formatTime(session.activeAt)}` };
    case 'ended':
      return { activity, text: isArchived(session) ? 'archived' : 'ended' };
  }
}

/** Formats a duration, such as "4 min" or "2 h". Returns an empty text for less than a minute. */
export function formatDuration(ms: number): string {
  const minutes = Math.floor(ms / MINUTE_MS);
  if (minutes < 1) return '';
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} days`;
}

/** A filter of the list of sessions. */
export type Filter = 'waiting' | 'working' | 'ready' | 'ended';

export const FILTERS: readonly Filter[] = ['waiting', 'working', 'ready', 'ended'];

const FILTER_OF: Record<Activity, Filter> = {
  waiting: 'waiting',
  working: 'working',
  stalled: 'working',
  failed: 'ready',
  terminal: 'ready',
  ready: 'ready',
  offline: 'ended',
  ended: 'ended',
};

/** Whether a filter shows a session. `waiting` also shows sessions that became ready or failed and that no person has seen since. */
export function matchesFilter(session: SessionSummary, filter: Filter, now: number): boolean {
  const activity = activityOf(session, session.pendingRequestsCount, now);
  return filter === FILTER_OF[activity] || (filter === 'waiting' && session.unseenSince !== undefined);
}

const SEARCH_WORDS: Record<Activity, string> = {
  waiting: 'waiting pending',
  working: 'working thinking',
  stalled: 'working thinking stalled no progress',
  failed: 'failed',
  terminal: 'terminal',
  ready: 'ready idle',
  offline: 'offline not connected',
  ended: 'ended',
};

/** Returns the words about the state of a session that a search finds. */
export function searchWords(session: SessionSummary, now: number): string {
  const words = [SEARCH_WORDS[activityOf(session, session.pendingRequestsCount, now)]];
  if (session.unseenSince !== undefined) words.push('waiting');
  if (session.pinned) words.push('pinned');
  if (session.muted) words.push('muted');
  return words.join(' ');
}
