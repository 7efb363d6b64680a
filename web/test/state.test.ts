// What events make of the state.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HubEvent, Machine, Message, Session } from '../src/api/types.ts';
import { withMessage, withNewerPage, withNewestPage, withOlderPage, withoutOldest, withOutgoing } from '../src/state/conversation.ts';
import { described } from '../src/state/metadata.ts';
import { reduce } from '../src/state/reduce.ts';
import { grouped, matches, summaryOf, titleOf } from '../src/state/sessions.ts';
import { conversationOf } from '../src/state/store.ts';
import { type Conversation, EMPTY, EMPTY_CONVERSATION, type State } from '../src/state/types.ts';

const session = (id: string, more: Partial<Session> = {}): Session => ({
  id,
  namespace: 'n',
  tag: id,
  seq: 0,
  createdAt: 1,
  updatedAt: 1,
  activeAt: 1,
  thinkingAt: 0,
  active: true,
  thinking: false,
  metadata: { path: `/code/${id}`, host: 'laptop' },
  metadataVersion: 1,
  agentState: null,
  agentStateVersion: 1,
  ...more,
});
const message = (seq: number, localId: string | null = null, id = `m${seq}`): Message => ({ id, seq, localId, content: seq, createdAt: seq });
const seqs = ({ messages }: Conversation) => messages.map(({ seq }) => seq);
const ready = (...all: number[]): Conversation => ({ ...EMPTY_CONVERSATION, reading: { status: 'ready' }, messages: all.map((seq) => message(seq)) });
const known = (one: Session): State => ({ ...EMPTY, list: { status: 'ready' }, summaries: { [one.id]: summaryOf(one) }, sessions: { [one.id]: one } });
const after = (state: State, ...events: HubEvent[]) => events.reduce((before, event) => reduce(before, event).state, state);
const updated = (sessionId: string, data: Partial<Session>): HubEvent => ({ type: 'session-updated', sessionId, data: data as Record<string, unknown> });

test('a session that is added stands in the list', () => {
  const state = after(EMPTY, { type: 'session-added', sessionId: 'a', data: session('a') as unknown as Record<string, unknown> });
  assert.equal(state.summaries.a?.metadata?.path, '/code/a');
  assert.equal(state.sessions.a, undefined);
});

test('a change is seen in the list and in the open session', () => {
  const todos = [{ id: '1', content: 'x', status: 'completed' as const, priority: 'low' as const }];
  const state = after(known(session('a')), updated('a', { thinking: true, updatedAt: 9 }), updated('a', { todos }), updated('a', { metadata: { path: '/b', host: 'h', name: 'B' } }));
  assert.deepEqual([state.summaries.a?.thinking, state.summaries.a?.updatedAt, state.summaries.a?.todoProgress, state.summaries.a?.metadata?.name], [true, 9, { completed: 1, total: 1 }, 'B']);
  assert.deepEqual([state.sessions.a?.thinking, state.sessions.a?.todos, state.sessions.a?.metadata?.name], [true, todos, 'B']);
});

test('completed requests are added to those that are known, and all else of the agent state is replaced', () => {
  const request = { tool: 'Bash', arguments: {} };
  const begun = session('a', { agentState: { requests: { r2: request }, completedRequests: { r1: { ...request, status: 'denied' } }, controlledByUser: true } });
  const state = after(known(begun), updated('a', { agentState: { completedRequests: { r2: { ...request, status: 'approved' } } } }));
  assert.deepEqual(Object.keys(state.sessions.a?.agentState?.completedRequests ?? {}), ['r1', 'r2']);
  assert.deepEqual([state.sessions.a?.agentState?.requests, state.sessions.a?.agentState?.controlledByUser], [undefined, undefined]);
  assert.equal(state.summaries.a?.pendingRequestsCount, 0);
});

test('a change of a session that is not known has the list read', () => {
  assert.deepEqual(reduce(known(session('a')), updated('b', { active: true })).needs, [{ kind: 'list' }]);
  assert.deepEqual(reduce(EMPTY, updated('b', { active: true })).needs, []);
});

test('a value that an event leaves out is read again, with the session where that is open, and else with the list', () => {
  const open = known(session('a', { agentState: { controlledByUser: true } }));
  const large = updated('a', { agentStateBytes: 3_000_000, agentStateVersion: 2 } as Partial<Session>);
  const { state, needs } = reduce(open, large);
  assert.deepEqual([needs, state.sessions.a?.agentState, state.sessions.a?.agentStateVersion], [[{ kind: 'session', id: 'a' }], { controlledByUser: true }, 2]);
  const closed = { ...open, sessions: {} };
  assert.deepEqual(reduce(closed, updated('a', { metadataBytes: 3_000_000 } as Partial<Session>)).needs, [{ kind: 'list' }]);
  const { metadata: _, ...rest } = session('b');
  const added = { type: 'session-added', sessionId: 'b', data: { ...rest, metadataBytes: 3_000_000 } } as unknown as HubEvent;
  assert.deepEqual(reduce(closed, added).needs, [{ kind: 'list' }]);
  assert.deepEqual(reduce({ ...closed, list: { status: 'none' } }, added).needs, []);
});

test('a session that is removed is gone, and who has it open is told', () => {
  const state = after({ ...known(session('a')), conversations: { a: ready(1) } }, { type: 'session-removed', sessionId: 'a' });
  assert.deepEqual([state.summaries, state.sessions, state.conversations], [{}, {}, {}]);
  assert.match(state.sessionErrors.a?.text ?? '', /deleted/);
  assert.equal(after(state, { type: 'session-added', sessionId: 'a', data: session('a') as unknown as Record<string, unknown> }).sessionErrors.a, undefined);
});

test('machines change, go, and are read when one is new', () => {
  const machine = { id: 'm', active: true, seq: 1 } as Machine;
  const state: State = { ...EMPTY, machinesRead: { status: 'ready' }, machines: { m: machine } };
  const event = (machineId: string, active: boolean) => ({ type: 'machine-updated', machineId, data: { active, activeAt: 5, metadataVersion: 1, runnerStateVersion: 1 } }) as HubEvent;
  assert.equal(after(state, event('m', true)).machines.m?.activeAt, 5);
  assert.deepEqual(after(state, event('m', false)).machines, {});
  assert.deepEqual(reduce(state, event('x', true)).needs, [{ kind: 'machines' }]);
});

test('names that every object inherits are ids as all others, and none that is here', () => {
  for (const id of ['__proto__', 'constructor']) {
    const event = { type: 'machine-updated', machineId: id, data: { active: true } } as HubEvent;
    const state: State = { ...EMPTY, list: { status: 'ready' }, machinesRead: { status: 'ready' } };
    assert.deepEqual(reduce(state, event), { state, needs: [{ kind: 'machines' }] });
    assert.deepEqual(reduce(state, updated(id, { thinking: true })), { state, needs: [{ kind: 'list' }] });
    assert.deepEqual(reduce(state, { type: 'message-received', sessionId: id, message: message(1) } as unknown as HubEvent), { state, needs: [] });
    assert.equal(conversationOf(id), EMPTY_CONVERSATION);
  }
});

test('of metadata only what is of its kind is taken, wherever it comes from', () => {
  const odd = { path: '/code/a', host: 5, name: { a: 1 }, flavor: [], summary: { text: {} }, worktree: 7, lifecycleState: 'running', more: 1 };
  const shown = { path: '/code/a', lifecycleState: 'running', more: 1 };
  assert.deepEqual(described({ id: 'a', metadata: odd }), { id: 'a', metadata: shown });
  assert.deepEqual([null, 'x', []].map((metadata) => described({ metadata }).metadata), [null, null, null]);
  assert.deepEqual(described({ id: 'a' }), { id: 'a' });
  const metadata = odd as unknown as Session['metadata'];
  const state = after(known(session('a')), updated('a', { metadata }));
  assert.deepEqual(state.sessions.a?.metadata, shown);
  assert.equal(titleOf(state.summaries.a ?? session('b')), 'a');
  const added = after(EMPTY, { type: 'session-added', sessionId: 'a', data: session('a', { metadata }) as unknown as Record<string, unknown> });
  assert.equal(grouped(Object.values(added.summaries))[0]?.host, 'unknown machine');
  const machine = { ...EMPTY, machines: { m: { id: 'm' } as Machine } };
  const event = { type: 'machine-updated', machineId: 'm', data: { active: true, metadata: { displayName: 5, host: 'h' } } } as unknown as HubEvent;
  assert.deepEqual(after(machine, event).machines.m?.metadata, { host: 'h' });
});

test('an event of a kind that is not known changes nothing', () => {
  const state = known(session('a'));
  assert.deepEqual(reduce(state, { type: 'tomorrow' } as unknown as HubEvent), { state, needs: [] });
});

test('messages are taken in order, once, and what is missing is asked for', () => {
  const taken = (conversation: Conversation, one: Message) => withMessage(conversation, one);
  assert.deepEqual(seqs((taken(ready(1, 2), message(3)) as { conversation: Conversation }).conversation), [1, 2, 3]);
  assert.deepEqual(taken(ready(1, 2), message(2)), { conversation: ready(1, 2) });
  assert.deepEqual(taken(ready(1, 2), message(4)), { need: 'newer' });
  assert.deepEqual(taken(ready(1, 2), message(2, null, 'another')), { need: 'conversation' });
  assert.deepEqual(taken({ ...ready(1), reading: { status: 'reading' } }, message(2)), { need: 'newer' });
  assert.deepEqual(taken(EMPTY_CONVERSATION, message(2)), { conversation: EMPTY_CONVERSATION });
});

test('a message that is told of without its content is read', () => {
  const state: State = { ...EMPTY, conversations: { a: ready(1) } };
  const event = { type: 'message-received', sessionId: 'a', message: { id: 'm2', seq: 2, localId: null, contentBytes: 9_000_000, createdAt: 2 } } as HubEvent;
  assert.deepEqual(reduce(state, event), { state, needs: [{ kind: 'newer', id: 'a' }] });
});

test('pages join without holes and without doubles', () => {
  const first = withNewestPage(EMPTY_CONVERSATION, [message(9), message(8)], true);
  assert.deepEqual([seqs(first), first.hasOlder, first.reading.status], [[8, 9], true, 'ready']);
  const older = withOlderPage(first, [message(8), message(7), message(6)], false);
  assert.deepEqual([seqs(older), older.hasOlder], [[6, 7, 8, 9], false]);
  assert.deepEqual(seqs(withNewerPage(older, [message(9), message(10), message(11)])), [6, 7, 8, 9, 10, 11]);
});

test('an outgoing message is there until it comes back, whichever of event and answer is first', () => {
  const outgoing = { localId: 'l', text: 'hi', attachments: [], createdAt: 0, state: 'sending' as const };
  const sent = withOutgoing(ready(1), outgoing);
  assert.deepEqual(sent.outgoing, [outgoing]);
  const back = (withMessage(sent, message(2, 'l')) as { conversation: Conversation }).conversation;
  assert.deepEqual(back.outgoing, []);
  assert.deepEqual(withOutgoing(back, { ...outgoing, state: 'sent' }).outgoing, []);
});

test('the list is by machine and directory, what is active first; a worktree stands with its repository', () => {
  const one = (id: string, more: Partial<Session>) => summaryOf(session(id, more));
  const groups = grouped([
    one('a', { active: false, updatedAt: 9, metadata: { path: '/x', host: 'h' } }),
    one('b', { updatedAt: 2, metadata: { path: '/y', host: 'h' } }),
    one('c', { updatedAt: 3, metadata: { path: '/y/.worktrees/w', host: 'h', worktree: { basePath: '/y' } } }),
    one('d', { updatedAt: 1, metadata: { path: '/y', host: 'other' } }),
  ]);
  assert.deepEqual(groups.map(({ host, path, sessions }) => [host, path, sessions.map(({ id }) => id)]), [
    ['h', '/y', ['c', 'b']],
    ['other', '/y', ['d']],
    ['h', '/x', ['a']],
  ]);
});

test('a session is called by its name, its summary, its directory or its id, and found by any of its words', () => {
  const title = (metadata: Session['metadata']) => titleOf({ id: '0123456789', metadata });
  const place = { path: '/code/demo', host: 'h' };
  assert.deepEqual([title({ ...place, name: 'N', summary: { text: 'S' } }), title({ ...place, summary: { text: 'S' } }), title(place), title(null)], ['N', 'S', 'demo', '01234567']);
  const summary = summaryOf(session('a', { metadata: { path: '/code/demo', host: 'laptop', name: 'Fix it' } }));
  assert.deepEqual(['fix', 'DEMO laptop', 'it q', 'phone'].map((query) => matches(summary, query)), [true, true, false, false]);
});

test('the oldest of very many messages go, and are older ones then', () => {
  const many = (count: number) => ready(...Array.from({ length: count }, (_, at) => at + 1));
  assert.equal(withoutOldest(many(400)).messages.length, 400);
  const trimmed = withoutOldest(many(401));
  assert.deepEqual([seqs(trimmed)[0], seqs(trimmed).at(-1), trimmed.hasOlder], [202, 401, true]);
  assert.equal(seqs(withOlderPage(trimmed, [message(201)], true))[0], 201);
  // An event that tells again of one that has gone changes nothing.
  assert.deepEqual(withMessage(trimmed, message(5)), { conversation: trimmed });
});
