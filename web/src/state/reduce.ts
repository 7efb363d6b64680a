/** The reducer: applies an event of the event channel to the state. */

import type { HubEvent, Machine, Session } from '../api/types.ts';
import { keepUnsentOnly, withMessage } from './conversation.ts';
import { getOwn } from './get-own.ts';
import { reduceInbox } from './inbox.ts';
import { withDelta } from './live-text.ts';
import { withValidMetadata } from './metadata.ts';
import { mergeSession, mergeSummary, toSummary } from './sessions.ts';
import { EMPTY_CONVERSATION, type Refetch, type State } from './types.ts';

/** The state after an event, and the fetches that the event makes necessary. */
export interface ReduceResult {
  state: State;
  refetches: Refetch[];
}

type ReceivedMessage = Extract<HubEvent, { type: 'message-received' }>['message'];

/** Applies an event. Applying the same event a second time changes nothing. `now`: Unix milliseconds. */
export function reduce(state: State, event: HubEvent, now = Date.now()): ReduceResult {
  const { state: next, refetches } = reduceResources(state, event);
  const inbox = reduceInbox(state.inbox, event, now);
  // The event of a large `agentState` does not contain the requests. While the status is 'idle', the first fetch is still to come.
  const mustRefetchInbox = 'data' in event && 'agentStateBytes' in event.data && state.inbox.load.status !== 'idle';
  return {
    state: inbox === state.inbox ? next : { ...next, inbox },
    refetches: mustRefetchInbox ? [...refetches, { kind: 'inbox' }] : refetches,
  };
}

function reduceResources(state: State, event: HubEvent): ReduceResult {
  switch (event.type) {
    case 'session-added':
      return {
        state: addSession(state, event.sessionId, withValidMetadata(event.data as Session)),
        refetches: omitsLargeValue(event.data) ? sessionRefetch(state, event.sessionId) : [],
      };
    case 'session-updated':
      return updateSession(state, event.sessionId, withValidMetadata(event.data as Partial<Session>));
    case 'session-removed':
      return { state: removeSession(state, event.sessionId), refetches: [] };
    case 'message-received':
      return receiveMessage(state, event.sessionId, event.message);
    case 'message-delta':
      return { state: receiveDelta(state, event), refetches: [] };
    case 'machine-updated':
      return updateMachine(state, event.machineId, withValidMetadata(event.data as Partial<Machine> & { active: boolean }));
    case 'connection-changed':
    case 'heartbeat':
    case 'toast':
    case 'storage-changed':
    case 'probe':
      return { state, refetches: [] };
    default:
      // A newer hub may send event types that this page does not know.
      return { state, refetches: [] };
  }
}

function addSession(state: State, id: string, session: Session): State {
  const { [id]: _, ...sessionErrors } = state.sessionErrors;
  return {
    ...state,
    sessionErrors,
    summaries: { ...state.summaries, [id]: toSummary(session) },
    sessions: getOwn(state.sessions, id) ? { ...state.sessions, [id]: session } : state.sessions,
  };
}

function updateSession(state: State, id: string, data: Partial<Session>): ReduceResult {
  const summary = getOwn(state.summaries, id);
  const session = getOwn(state.sessions, id);
  const refetches = omitsLargeValue(data) ? sessionRefetch(state, id) : [];
  const next = { ...state };
  if (summary) next.summaries = { ...state.summaries, [id]: mergeSummary(summary, data) };
  // A session that is not in the list may be an archived session that was resumed.
  else if (state.listLoad.status === 'ready' && refetches.length === 0) refetches.push({ kind: 'sessions' });
  if (session) next.sessions = { ...state.sessions, [id]: mergeSession(session, data) };
  if (data.heldMessagesCount !== undefined && getOwn(state.conversations, id)) refetches.push({ kind: 'held-messages', id });
  return { state: next, refetches };
}

/** Whether an event contains the length of a large value instead of the value itself. */
function omitsLargeValue(data: object): boolean {
  return 'metadataBytes' in data || 'agentStateBytes' in data;
}

/** Returns the fetch for a session whose event was incomplete. */
function sessionRefetch(state: State, id: string): Refetch[] {
  if (getOwn(state.sessions, id)) return [{ kind: 'session', id }];
  return state.listLoad.status === 'ready' ? [{ kind: 'sessions' }] : [];
}

function removeSession(state: State, id: string): State {
  const { [id]: _summary, ...summaries } = state.summaries;
  const { [id]: _session, ...sessions } = state.sessions;
  const { [id]: conversation = EMPTY_CONVERSATION, ...conversations } = state.conversations;
  // The user may copy or discard the messages that were not sent.
  const unsent = keepUnsentOnly(conversation);
  if (unsent.outgoing.length > 0) conversations[id] = unsent;
  const sessionErrors = { ...state.sessionErrors, [id]: { text: 'This session was deleted.', isGone: true } };
  return { ...state, summaries, sessions, conversations, sessionErrors };
}

function receiveMessage(state: State, id: string, message: ReceivedMessage): ReduceResult {
  const conversation = getOwn(state.conversations, id);
  if (!conversation) return { state, refetches: [] };
  // The event of a very large message has no content.
  if (!('content' in message)) return { state, refetches: [{ kind: 'newer-messages', id }] };
  const result = withMessage(conversation, message);
  if ('refetch' in result) return { state, refetches: [{ kind: result.refetch, id }] };
  return { state: { ...state, conversations: { ...state.conversations, [id]: result.conversation } }, refetches: [] };
}

function receiveDelta(state: State, delta: Extract<HubEvent, { type: 'message-delta' }>): State {
  // A delta may arrive before the messages are loaded: as soon as the page subscribes to the session, the hub sends the live text so far.
  const conversation = getOwn(state.conversations, delta.sessionId) ?? EMPTY_CONVERSATION;
  const changed = withDelta(conversation, delta);
  return changed === conversation ? state : { ...state, conversations: { ...state.conversations, [delta.sessionId]: changed } };
}

function updateMachine(state: State, id: string, data: Partial<Machine> & { active: boolean }): ReduceResult {
  const known = getOwn(state.machines, id);
  if (!data.active) {
    const { [id]: _, ...machines } = state.machines;
    return { state: { ...state, machines }, refetches: [] };
  }
  if (!known) return { state, refetches: state.machinesLoad.status === 'ready' ? [{ kind: 'machines' }] : [] };
  return { state: { ...state, machines: { ...state.machines, [id]: { ...known, ...data } } }, refetches: [] };
}
