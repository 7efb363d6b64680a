/** What an event of the channel makes of the state. */

import type { HubEvent, Machine, Session } from '../api/types.ts';
import { own } from '../own.ts';
import { withMessage } from './conversation.ts';
import { described } from './metadata.ts';
import { changedSession, changedSummary, summaryOf } from './sessions.ts';
import type { Need, State } from './types.ts';

/** The state after an event, and what has to be read because of it. */
export interface Reduced {
  state: State;
  needs: Need[];
}

type Received = Extract<HubEvent, { type: 'message-received' }>['message'];

/** Applies an event. Events that come twice change nothing the second time. */
export function reduce(state: State, event: HubEvent): Reduced {
  switch (event.type) {
    case 'session-added':
      return { state: added(state, event.sessionId, described(event.data as Session)), needs: isPart(event.data) ? toReadAgain(state, event.sessionId) : [] };
    case 'session-updated':
      return updated(state, event.sessionId, described(event.data as Partial<Session>));
    case 'session-removed':
      return { state: removed(state, event.sessionId), needs: [] };
    case 'message-received':
      return received(state, event.sessionId, event.message);
    case 'machine-updated':
      return machine(state, event.machineId, described(event.data as Partial<Machine> & { active: boolean }));
    case 'connection-changed':
    case 'heartbeat':
    case 'toast':
      return { state, needs: [] };
    default:
      // A newer hub may tell of more than this page knows.
      return { state, needs: [] };
  }
}

function added(state: State, id: string, session: Session): State {
  const { [id]: _, ...sessionErrors } = state.sessionErrors;
  return {
    ...state,
    sessionErrors,
    summaries: { ...state.summaries, [id]: summaryOf(session) },
    sessions: own(state.sessions, id) ? { ...state.sessions, [id]: session } : state.sessions,
  };
}

function updated(state: State, id: string, data: Partial<Session>): Reduced {
  const summary = own(state.summaries, id);
  const session = own(state.sessions, id);
  const needs = isPart(data) ? toReadAgain(state, id) : [];
  const next = { ...state };
  if (summary) next.summaries = { ...state.summaries, [id]: changedSummary(summary, data) };
  // One that was archived long ago may be back.
  else if (state.list.status === 'ready' && needs.length === 0) needs.push({ kind: 'list' });
  if (session) next.sessions = { ...state.sessions, [id]: changedSession(session, data) };
  return { state: next, needs };
}

/** Whether an event tells of a large value by its length only. */
function isPart(data: object): boolean {
  return 'metadataBytes' in data || 'agentStateBytes' in data;
}

/** What shows of a session of which an event does not tell all. */
function toReadAgain(state: State, id: string): Need[] {
  if (own(state.sessions, id)) return [{ kind: 'session', id }];
  return state.list.status === 'ready' ? [{ kind: 'list' }] : [];
}

function removed(state: State, id: string): State {
  const { [id]: _summary, ...summaries } = state.summaries;
  const { [id]: _session, ...sessions } = state.sessions;
  const { [id]: _conversation, ...conversations } = state.conversations;
  const sessionErrors = { ...state.sessionErrors, [id]: { text: 'This session was deleted.', isGone: true } };
  return { ...state, summaries, sessions, conversations, sessionErrors };
}

function received(state: State, id: string, message: Received): Reduced {
  const conversation = own(state.conversations, id);
  if (!conversation) return { state, needs: [] };
  // A very large message is told of without its content.
  if (!('content' in message)) return { state, needs: [{ kind: 'newer', id }] };
  const taken = withMessage(conversation, message);
  if ('need' in taken) return { state, needs: [{ kind: taken.need, id }] };
  return { state: { ...state, conversations: { ...state.conversations, [id]: taken.conversation } }, needs: [] };
}

function machine(state: State, id: string, data: Partial<Machine> & { active: boolean }): Reduced {
  const known = own(state.machines, id);
  if (!data.active) {
    const { [id]: _, ...machines } = state.machines;
    return { state: { ...state, machines }, needs: [] };
  }
  if (!known) return { state, needs: state.machinesRead.status === 'ready' ? [{ kind: 'machines' }] : [] };
  return { state: { ...state, machines: { ...state.machines, [id]: { ...known, ...data } } }, needs: [] };
}
