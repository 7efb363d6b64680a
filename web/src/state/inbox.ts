/**
 * The inbox: everything that waits for a person. The hub's inbox is loaded once, and events keep the pending requests current. The
 * sessions that became ready or failed come from the list of sessions.
 */

import type { LoadState } from '../api/load-state.ts';
import type { HubEvent, PendingRequest, Session, SessionSummary } from '../api/types.ts';
import { isString } from '../api/validate.ts';
import { cutText } from '../content/cut-text.ts';
import { validRequests } from '../content/permissions.ts';
import { getOwn } from './get-own.ts';
import { isArchived } from './sessions.ts';

export interface WaitingRequest {
  /** Unix milliseconds. */
  since: number;
  request: PendingRequest;
}

/** Why a request no longer waits. */
export type Outcome = 'approved' | 'denied' | 'canceled';

export interface Inbox {
  load: LoadState;
  /** Whether the items are those that this browser has stored, because the hub's inbox is not loaded yet. */
  isStored?: boolean;
  /** By session id and request id. */
  requests: Record<string, Record<string, WaitingRequest>>;
  /** The errors of the agents that failed, by session id. */
  errors: Record<string, string>;
  /** The latest outcomes, by the key of the item. */
  outcomes: Record<string, Outcome>;
  /** The cursor of the page after the loaded pages. */
  nextCursor?: string;
}

export const EMPTY_INBOX: Inbox = { load: { status: 'idle' }, requests: {}, errors: {}, outcomes: {} };

/** `unloaded-requests`: the requests of a session that this browser has not loaded. Only their number is known. */
export type InboxItem = { key: string; since: number; session: SessionSummary } & (
  | { kind: 'request'; requestId: string; request: PendingRequest }
  | { kind: 'unloaded-requests'; count: number }
  | { kind: 'ready' }
  | { kind: 'failed'; error: string }
);

/** An item in a response of the hub. */
export interface ReceivedItem {
  kind: string;
  since: number;
  session: { id: string };
  requestId?: string | undefined;
  request?: unknown;
  error?: string | undefined;
}

const MAX_OUTCOMES = 200;
const MAX_ERROR_LENGTH = 200;
/** The clock of a CLI may be ahead of this browser's clock by this time. */
const CLOCK_TOLERANCE_MS = 5 * 60_000;
/** No request was created before 2020. */
const EARLIEST_MS = Date.UTC(2020);

/** Whether the inbox is neither loaded nor stored, and its load has not failed. */
export const isInboxMissing = ({ load, isStored }: Inbox) => !isStored && (load.status === 'idle' || load.status === 'loading');

/** The keys of the items that this page has answered or dismissed. */
export const ownDecisions = new Set<string>();

export const requestKey = (sessionId: string, requestId: string) => `request ${sessionId} ${requestId}`;

/** Returns the requests and errors of the hub's items. */
export function readItems(items: readonly ReceivedItem[]): Pick<Inbox, 'requests' | 'errors'> {
  const requests: Inbox['requests'] = {};
  const errors: Inbox['errors'] = {};
  for (const { kind, since, session, requestId, request, error } of items) {
    if (kind === 'failed' && isString(error)) errors[session.id] = cutText(error, MAX_ERROR_LENGTH);
    if (kind !== 'request' || requestId === undefined) continue;
    const [[, valid] = ['', {}]] = validRequests({ [requestId]: request });
    requests[session.id] = { ...getOwn(requests, session.id), [requestId]: { since, request: valid } };
  }
  return { requests, errors };
}

/** Adds requests of another page. A request that is already known is kept, because events have updated it. */
export function mergeRequests(added: Inbox['requests'], known: Inbox['requests']): Inbox['requests'] {
  const merged = { ...known };
  for (const [id, requests] of Object.entries(added)) merged[id] = { ...requests, ...getOwn(known, id) };
  return merged;
}

/** Applies an event. Applying the same event a second time changes nothing. `now`: Unix milliseconds. */
export function reduceInbox(inbox: Inbox, event: HubEvent, now: number): Inbox {
  switch (event.type) {
    case 'session-added':
    case 'session-updated': {
      const { agentState, metadata } = event.data as Partial<Session>;
      const changed = agentState === undefined ? inbox : withAgentState(inbox, event.sessionId, agentState, now);
      const error = metadata?.lifecycleState === 'failed' ? metadata.agentError : undefined;
      return isString(error) ? { ...changed, errors: { ...changed.errors, [event.sessionId]: cutText(error, MAX_ERROR_LENGTH) } } : changed;
    }
    case 'session-removed': {
      const { [event.sessionId]: _requests, ...requests } = inbox.requests;
      const { [event.sessionId]: _error, ...errors } = inbox.errors;
      return { ...inbox, requests, errors };
    }
    default:
      return inbox;
  }
}

function withAgentState(inbox: Inbox, sessionId: string, agentState: Session['agentState'], now: number): Inbox {
  const known = getOwn(inbox.requests, sessionId) ?? {};
  const pending = validRequests(agentState?.requests ?? {});
  const pendingIds = new Set(pending.map(([id]) => id));
  const departedIds = Object.keys(known).filter((id) => !pendingIds.has(id));
  if (pending.length === 0 && departedIds.length === 0) return inbox;
  const { [sessionId]: _, ...requestsOfOthers } = inbox.requests;
  const waiting = pending.map(([id, request]) => [id, { since: waitingSince(request, getOwn(known, id)?.since, now), request }]);
  const newOutcomes = departedIds.map((id) => [requestKey(sessionId, id), outcomeOf(agentState, id)]);
  return {
    ...inbox,
    requests: pending.length === 0 ? requestsOfOthers : { ...requestsOfOthers, [sessionId]: Object.fromEntries(waiting) },
    outcomes: Object.fromEntries([...Object.entries(inbox.outcomes), ...newOutcomes].slice(-MAX_OUTCOMES)),
  };
}

/** Returns since when a request waits: its own time if it is plausible, or else when this page received it first. */
function waitingSince({ createdAt = 0 }: PendingRequest, known: number | undefined, now: number): number {
  return createdAt >= EARLIEST_MS && createdAt <= now + CLOCK_TOLERANCE_MS ? createdAt : (known ?? now);
}

function outcomeOf(agentState: Session['agentState'], id: string): Outcome {
  const status = getOwn(agentState?.completedRequests ?? {}, id)?.status;
  return status === 'approved' || status === 'denied' ? status : 'canceled';
}

/**
 * Returns everything that waits, oldest first. Leaves out the requests of inactive sessions, because nobody can answer these requests.
 * @param seenId the session that the user has open. No `ready` or `failed` item is listed for this session
 */
export function listInboxItems(inbox: Inbox, summaries: Readonly<Record<string, SessionSummary>>, seenId: string | null): InboxItem[] {
  if (isInboxMissing(inbox)) return [];
  const items = Object.values(summaries)
    .filter((session) => !isArchived(session))
    .flatMap((session) => itemsOf(session, inbox, session.id === seenId));
  return items.sort((a, b) => a.since - b.since || (a.key < b.key ? -1 : 1));
}

function itemsOf(session: SessionSummary, inbox: Inbox, isSeen: boolean): InboxItem[] {
  const { id, active, pendingRequestsCount, unseenSince, metadata } = session;
  const known = Object.entries(getOwn(inbox.requests, id) ?? {});
  const items: InboxItem[] = active
    ? known.map(([requestId, { since, request }]) => ({
        kind: 'request',
        key: requestKey(id, requestId),
        since,
        session,
        requestId,
        request,
      }))
    : [];
  const count = pendingRequestsCount - known.length;
  if (active && count > 0) items.push({ kind: 'unloaded-requests', key: `requests ${id}`, since: session.updatedAt, session, count });
  if (unseenSince === undefined || isSeen) return items;
  const isFailed = metadata?.lifecycleState === 'failed';
  return isFailed
    ? [...items, { kind: 'failed', key: `failed ${id}`, since: unseenSince, session, error: getOwn(inbox.errors, id) ?? '' }]
    : [...items, { kind: 'ready', key: `ready ${id}`, since: unseenSince, session }];
}

/** An item as a list shows it. `leftAt`: when the item stopped waiting; null while it waits. */
export interface ShownItem {
  item: InboxItem;
  leftAt: number | null;
}

/** An item that no longer waits keeps its place for this long. */
export const LEAVE_MS = 4000;

/**
 * Updates a shown list without moving its items: the items keep their order, and new items are added at the end.
 * @param isInUse whether the user is pointing at, touching or scrolling the list. Meanwhile, items that no longer wait keep their places
 * @param holdsNew whether new items are left out for now
 */
export function updateShown(
  previous: readonly ShownItem[],
  items: readonly InboxItem[],
  now: number,
  { isInUse, holdsNew }: { isInUse: boolean; holdsNew: boolean },
): ShownItem[] {
  const current = new Map(items.map((item) => [item.key, item]));
  const shownKeys = new Set(previous.map(({ item }) => item.key));
  const kept = previous.flatMap(({ item, leftAt }): ShownItem[] => {
    const waiting = current.get(item.key);
    if (waiting) return [{ item: waiting, leftAt: null }];
    const left = leftAt ?? now;
    return isInUse || now - left < LEAVE_MS ? [{ item, leftAt: left }] : [];
  });
  const added = holdsNew ? [] : items.filter(({ key }) => !shownKeys.has(key)).map((item) => ({ item, leftAt: null }));
  return [...kept, ...added];
}

/** Groups shown items by session. A group is at the place of its first item. */
export function groupShown(shown: readonly ShownItem[]): { id: string; items: ShownItem[] }[] {
  const groups = new Map<string, ShownItem[]>();
  for (const shownItem of shown) {
    const { id } = shownItem.item.session;
    groups.set(id, [...(groups.get(id) ?? []), shownItem]);
  }
  return [...groups].map(([id, items]) => ({ id, items }));
}

/**
 * Returns why an item no longer waits, for the user.
 * @param isOwn whether this page has answered or dismissed the item
 * @param session the session now; undefined if it was deleted
 */
export function describeDeparture(
  item: InboxItem,
  outcome: Outcome | undefined,
  isOwn: boolean,
  session: SessionSummary | undefined,
): string {
  if (!session) return 'The session was deleted';
  if (isArchived(session)) return 'The session was archived';
  if (item.kind === 'ready' || item.kind === 'failed') {
    if (isOwn) return 'Dismissed';
    return session.thinking ? 'Works again' : 'Seen';
  }
  if (outcome === 'approved' || outcome === 'denied')
    return isOwn ? (outcome === 'approved' ? 'Approved' : 'Denied') : 'Answered on another device';
  if (!session.active) return 'No longer connected';
  return item.kind === 'unloaded-requests' ? 'No longer waits' : 'Withdrawn by the agent';
}
