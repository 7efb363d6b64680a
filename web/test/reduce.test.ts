// The reducer, and the pure functions on conversations, sessions and metadata.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parse } from 'yaml';
import type { HubEvent, Machine, Message, Session } from '../src/api/types.ts';
import {
  trimNewest,
  trimOldest,
  withMessage,
  withNewerPage,
  withNewestPage,
  withOlderPage,
  withOutgoing,
} from '../src/state/conversation.ts';
import { withValidMetadata } from '../src/state/metadata.ts';
import { reduce } from '../src/state/reduce.ts';
import {
  cssColor,
  groupSessions,
  hasEnded,
  hasFailed,
  isInTerminal,
  limitGroups,
  matchesQuery,
  mergeSession,
  mergeSummary,
  sessionTitle,
  sortAsBefore,
  sortSessions,
  toSummary,
} from '../src/state/sessions.ts';
import { withoutLiveText } from '../src/state/live-text.ts';
import { getConversation } from '../src/state/store.ts';
import { type Conversation, EMPTY_CONVERSATION, EMPTY_STATE, type State } from '../src/state/types.ts';
import { pluck } from './support/pluck.ts';

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
const message = (seq: number, localId: string | null = null, id = `m${seq}`): Message => ({
  id,
  seq,
  localId,
  content: seq,
  createdAt: seq,
});
const seqs = ({ messages }: Conversation) => messages.map(({ seq }) => seq);
const loadedConversation = (...all: number[]): Conversation => ({
  ...EMPTY_CONVERSATION,
  loadState: { status: 'ready' },
  messages: all.map((seq) => message(seq)),
});
const stateWith = (item: Session): State => ({
  ...EMPTY_STATE,
  listLoad: { status: 'ready' },
  summaries: { [item.id]: toSummary(item) },
  sessions: { [item.id]: item },
});
const applyAll = (state: State, ...events: HubEvent[]) => events.reduce((before, event) => reduce(before, event).state, state);
const updateEvent = (sessionId: string, data: Partial<Session>): HubEvent => ({
  type: 'session-updated',
  sessionId,
  data: data as Record<string, unknown>,
});

test('adds a session to the list', () => {
  const state = applyAll(EMPTY_STATE, { type: 'session-added', sessionId: 'a', data: session('a') as unknown as Record<string, unknown> });
  assert.equal(state.summaries.a?.metadata?.path, '/code/a');
  assert.equal(state.sessions.a, undefined);
});

test('applies an update to the list and to the open session', () => {
  const todos = [{ id: '1', content: 'x', status: 'completed' as const, priority: 'low' as const }];
  const state = applyAll(
    stateWith(session('a')),
    updateEvent('a', { thinking: true, updatedAt: 9 }),
    updateEvent('a', { todos }),
    updateEvent('a', { metadata: { path: '/b', host: 'h', name: 'B' } }),
  );
  assert.deepEqual(
    [state.summaries.a?.thinking, state.summaries.a?.updatedAt, state.summaries.a?.todoProgress, state.summaries.a?.metadata?.name],
    [true, 9, { completed: 1, total: 1 }, 'B'],
  );
  assert.deepEqual([state.sessions.a?.thinking, state.sessions.a?.todos, state.sessions.a?.metadata?.name], [true, todos, 'B']);
});

test('adds completed requests to the known ones and replaces the rest of the agent state', () => {
  const request = { tool: 'Bash', arguments: {} };
  const before = session('a', {
    agentState: { requests: { r2: request }, completedRequests: { r1: { ...request, status: 'denied' } }, controlledByUser: true },
  });
  const state = applyAll(
    stateWith(before),
    updateEvent('a', { agentState: { completedRequests: { r2: { ...request, status: 'approved' } } } }),
  );
  assert.deepEqual(Object.keys(state.sessions.a?.agentState?.completedRequests ?? {}), ['r1', 'r2']);
  assert.deepEqual([state.sessions.a?.agentState?.requests, state.sessions.a?.agentState?.controlledByUser], [undefined, undefined]);
  assert.equal(state.summaries.a?.pendingRequestsCount, 0);
});

test('fetches the list after an update of an unknown session', () => {
  assert.deepEqual(reduce(stateWith(session('a')), updateEvent('b', { active: true })).refetches, [{ kind: 'sessions' }]);
  assert.deepEqual(reduce(EMPTY_STATE, updateEvent('b', { active: true })).refetches, []);
});

test('fetches the open session, or else the list, if an event omits a value', () => {
  const open = stateWith(session('a', { agentState: { controlledByUser: true } }));
  const large = updateEvent('a', { agentStateBytes: 3_000_000, agentStateVersion: 2 } as Partial<Session>);
  const { state, refetches } = reduce(open, large);
  assert.deepEqual(
    [refetches, state.sessions.a?.agentState, state.sessions.a?.agentStateVersion],
    [[{ kind: 'session', id: 'a' }], { controlledByUser: true }, 2],
  );
  const closed = { ...open, sessions: {} };
  assert.deepEqual(reduce(closed, updateEvent('a', { metadataBytes: 3_000_000 } as Partial<Session>)).refetches, [{ kind: 'sessions' }]);
  const { metadata: _, ...withoutMetadata } = session('b');
  const added = { type: 'session-added', sessionId: 'b', data: { ...withoutMetadata, metadataBytes: 3_000_000 } } as unknown as HubEvent;
  assert.deepEqual(reduce(closed, added).refetches, [{ kind: 'sessions' }]);
  assert.deepEqual(reduce({ ...closed, listLoad: { status: 'idle' } }, added).refetches, []);
});

test('removes a session and stores an error for its view', () => {
  const state = applyAll(
    { ...stateWith(session('a')), conversations: { a: loadedConversation(1) } },
    { type: 'session-removed', sessionId: 'a' },
  );
  assert.deepEqual([state.summaries, state.sessions, state.conversations], [{}, {}, {}]);
  assert.match(state.sessionErrors.a?.text ?? '', /deleted/);
  assert.equal(
    applyAll(state, { type: 'session-added', sessionId: 'a', data: session('a') as unknown as Record<string, unknown> }).sessionErrors.a,
    undefined,
  );
});

test('keeps the messages that were not sent to a deleted session', () => {
  const outgoing = (['waiting', 'sent'] as const).map((status) => ({ localId: status, text: 'hi', attachments: [], createdAt: 0, status }));
  const conversation = { ...loadedConversation(1), outgoing };
  const { conversations } = applyAll(
    { ...stateWith(session('a')), conversations: { a: conversation } },
    { type: 'session-removed', sessionId: 'a' },
  );
  assert.deepEqual([conversations.a?.messages, conversations.a?.outgoing.map(({ localId }) => localId)], [[], ['waiting']]);
});

test('updates and removes machines, and fetches the list for a new one', () => {
  const machine = { id: 'm', active: true, seq: 1 } as Machine;
  const state: State = { ...EMPTY_STATE, machinesLoad: { status: 'ready' }, machines: { m: machine } };
  const event = (machineId: string, active: boolean) =>
    ({ type: 'machine-updated', machineId, data: { active, activeAt: 5, metadataVersion: 1, runnerStateVersion: 1 } }) as HubEvent;
  assert.equal(applyAll(state, event('m', true)).machines.m?.activeAt, 5);
  assert.deepEqual(applyAll(state, event('m', false)).machines, {});
  assert.deepEqual(reduce(state, event('x', true)).refetches, [{ kind: 'machines' }]);
});

test('treats inherited property names as unknown ids', () => {
  for (const id of ['__proto__', 'constructor']) {
    const event = { type: 'machine-updated', machineId: id, data: { active: true } } as HubEvent;
    const state: State = { ...EMPTY_STATE, listLoad: { status: 'ready' }, machinesLoad: { status: 'ready' } };
    assert.deepEqual(reduce(state, event), { state, refetches: [{ kind: 'machines' }] });
    assert.deepEqual(reduce(state, updateEvent(id, { thinking: true })), { state, refetches: [{ kind: 'sessions' }] });
    assert.deepEqual(reduce(state, { type: 'message-received', sessionId: id, message: message(1) } as unknown as HubEvent), {
      state,
      refetches: [],
    });
    assert.equal(getConversation(id), EMPTY_CONVERSATION);
  }
});

test('drops metadata fields of the wrong type', () => {
  const invalid = {
    path: '/code/a',
    host: 5,
    name: { a: 1 },
    flavor: [],
    summary: { text: {} },
    worktree: 7,
    lifecycleState: 'running',
    more: 1,
  };
  const valid = { path: '/code/a', lifecycleState: 'running', more: 1 };
  assert.deepEqual(withValidMetadata({ id: 'a', metadata: invalid }), { id: 'a', metadata: valid });
  assert.deepEqual(
    [null, 'x', []].map((metadata) => withValidMetadata({ metadata }).metadata),
    [null, null, null],
  );
  assert.deepEqual(withValidMetadata({ id: 'a' }), { id: 'a' });
  const metadata = invalid as unknown as Session['metadata'];
  const state = applyAll(stateWith(session('a')), updateEvent('a', { metadata }));
  assert.deepEqual(state.sessions.a?.metadata, valid);
  assert.equal(sessionTitle(state.summaries.a ?? session('b')), 'a');
  const added = applyAll(EMPTY_STATE, {
    type: 'session-added',
    sessionId: 'a',
    data: session('a', { metadata }) as unknown as Record<string, unknown>,
  });
  assert.equal(groupSessions(Object.values(added.summaries))[0]?.host, 'unknown machine');
  const machine = { ...EMPTY_STATE, machines: { m: { id: 'm' } as Machine } };
  const event = {
    type: 'machine-updated',
    machineId: 'm',
    data: { active: true, metadata: { displayName: 5, host: 'h' } },
  } as unknown as HubEvent;
  assert.deepEqual(applyAll(machine, event).machines.m?.metadata, { host: 'h' });
});

test('ignores unknown event types', () => {
  const state = stateWith(session('a'));
  assert.deepEqual(reduce(state, { type: 'unknown-type' } as unknown as HubEvent), { state, refetches: [] });
});

test('adds messages in order, ignores duplicates and fetches after a gap', () => {
  assert.deepEqual(seqs((withMessage(loadedConversation(1, 2), message(3)) as { conversation: Conversation }).conversation), [1, 2, 3]);
  assert.deepEqual(withMessage(loadedConversation(1, 2), message(2)), { conversation: loadedConversation(1, 2) });
  assert.deepEqual(withMessage(loadedConversation(1, 2), message(4)), { refetch: 'newer-messages' });
  assert.deepEqual(withMessage(loadedConversation(1, 2), message(2, null, 'another')), { refetch: 'newest-messages' });
  assert.deepEqual(withMessage({ ...loadedConversation(1), loadState: { status: 'loading' } }, message(2)), { refetch: 'newer-messages' });
  assert.deepEqual(withMessage(EMPTY_CONVERSATION, message(2)), { conversation: EMPTY_CONVERSATION });
});

test('fetches a message whose event has no content', () => {
  const state: State = { ...EMPTY_STATE, conversations: { a: loadedConversation(1) } };
  const event = {
    type: 'message-received',
    sessionId: 'a',
    message: { id: 'm2', seq: 2, localId: null, contentBytes: 9_000_000, createdAt: 2 },
  } as HubEvent;
  assert.deepEqual(reduce(state, event), { state, refetches: [{ kind: 'newer-messages', id: 'a' }] });
});

test('joins pages without gaps and duplicates', () => {
  const first = withNewestPage(EMPTY_CONVERSATION, [message(9), message(8)], true);
  assert.deepEqual([seqs(first), first.hasOlder, first.loadState.status], [[8, 9], true, 'ready']);
  const older = withOlderPage(first, [message(8), message(7), message(6)], false);
  assert.deepEqual([seqs(older), older.hasOlder], [[6, 7, 8, 9], false]);
  assert.deepEqual(seqs(withNewerPage(older, [message(9), message(10), message(11)])), [6, 7, 8, 9, 10, 11]);
});

test('removes an outgoing message once its event arrives, before or after the response', () => {
  const outgoing = { localId: 'l', text: 'hi', attachments: [], createdAt: 0, status: 'sending' as const };
  const sent = withOutgoing(loadedConversation(1), outgoing);
  assert.deepEqual(sent.outgoing, [outgoing]);
  const back = (withMessage(sent, message(2, 'l')) as { conversation: Conversation }).conversation;
  assert.deepEqual(back.outgoing, []);
  assert.deepEqual(withOutgoing(back, { ...outgoing, status: 'sent' }).outgoing, []);
});

test('groups sessions by machine and directory, active ones first, worktrees with their repository', () => {
  const summary = (id: string, more: Partial<Session>) => toSummary(session(id, more));
  const minutes = (count: number) => count * 60_000;
  const sorted = sortSessions([
    summary('a', { active: false, lastMessageAt: minutes(9), metadata: { path: '/x', host: 'h' } }),
    summary('b', { lastMessageAt: minutes(2), metadata: { path: '/y', host: 'h' } }),
    summary('c', { lastMessageAt: minutes(3), metadata: { path: '/y/.worktrees/w', host: 'h', worktree: { basePath: '/y' } } }),
    summary('d', { createdAt: minutes(1), metadata: { path: '/y', host: 'other' } }),
  ]);
  const groups = groupSessions(sorted);
  assert.deepEqual(
    groups.map(({ host, path, sessions }) => [host, path, sessions.map(({ id }) => id)]),
    [
      ['h', '/y', ['c', 'b']],
      ['other', '/y', ['d']],
      ['h', '/x', ['a']],
    ],
  );
  const idsOfFirst = (count: number) => limitGroups(groups, count).map(({ sessions }) => sessions.map(({ id }) => id).join(''));
  assert.deepEqual([0, 1, 2, 3, 4, 9].map(idsOfFirst), [[], ['c'], ['cb'], ['cb', 'd'], ['cb', 'd', 'a'], ['cb', 'd', 'a']]);
});

test('pinned sessions of all directories are one group at the top', () => {
  const summary = (id: string, more: Partial<Session>) => toSummary(session(id, more));
  const pinned = summary('a', { active: false, updatedAt: 1, pinned: true, metadata: { path: '/x', host: 'h' } });
  const groups = groupSessions(sortSessions([summary('b', { updatedAt: 60_000, metadata: { path: '/x', host: 'h' } }), pinned]));
  assert.deepEqual(
    groups.map(({ isPinned, path, sessions }) => [isPinned, path, sessions.map(({ id }) => id)]),
    [
      [true, '', ['a']],
      [false, '/x', ['b']],
    ],
  );
  const unpinned = mergeSummary(pinned, { pinned: false });
  assert.deepEqual(pluck(groupSessions([unpinned]), 'isPinned'), [false]);
});

test('only a known name and #rrggbb are colours of a session', () => {
  for (const name of ['red', 'orange', 'yellow', 'green', 'blue', 'purple', 'grey'])
    assert.match(cssColor(name) ?? '', /^#[0-9a-f]{6}$/, name);
  assert.deepEqual(['#0A7bff', '#000000'].map(cssColor), ['#0A7bff', '#000000']);
  const others = ['', 'Red', 'tomato', 'constructor', '__proto__', '#fff', '#0a7bff80', '#0a7bff\n', 'url(//x.example)', 'red;top:0', null];
  for (const text of others) assert.equal(cssColor(text), undefined, `${text}`);
});

test('sessions are sorted by their last message, or by their creation, and keep-alives move no session', () => {
  const order = (...all: Partial<Session>[]) =>
    sortSessions(all.map((more, index) => toSummary(session(`s${index}`, more)))).map(({ id }) => id);
  assert.deepEqual(order({ lastMessageAt: 2 }, { lastMessageAt: 3 }), ['s1', 's0']);
  assert.deepEqual(order({ createdAt: 5, updatedAt: 1, activeAt: 1 }, { createdAt: 1, lastMessageAt: 4, updatedAt: 9, activeAt: 9 }), [
    's0',
    's1',
  ]);
});

interface Schema {
  required: string[];
  properties: Record<string, { type?: string | string[] }>;
}

const readFile = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
const api = parse(readFile('docs/openapi.yaml'));
const schemas: Record<'Session' | 'SessionSummary', Schema> = api.components.schemas;

test('the list shows each setting of a session', () => {
  const { properties }: Schema = api.paths['/api/sessions/{id}'].patch.requestBody.content['application/json'].schema;
  const settings = Object.keys(properties).filter((name) => name in schemas.SessionSummary.properties);
  assert.ok(settings.length >= 3, settings.join());
  const source = ['views/session-row.tsx', 'state/session-status.ts'].map((name) => readFile(`web/src/${name}`)).join('\n');
  for (const name of settings) assert.ok(source.includes(`session.${name}`), `no view of the list shows ${name}`);
});

test('the list and the open session take each optional field of a session from an event, and lose it when the hub removes it', () => {
  const { required, properties } = schemas.SessionSummary;
  const names = Object.keys(properties).filter((name) => !required.includes(name) && name in schemas.Session.properties);
  assert.ok(names.length >= 12, names.join());
  const bare: Record<string, unknown> = { ...session('a') };
  for (const name of names) delete bare[name];
  for (const name of names) {
    const { type } = schemas.Session.properties[name] ?? {};
    const [value, removal] =
      type === 'boolean' ? [true, false] : type === 'integer' ? [7, name === 'heldMessagesCount' ? 0 : null] : ['x', null];
    const shown = ({ summaries, sessions }: State) => [summaries.a, sessions.a].map((of) => (of as Record<string, unknown>)[name]);
    const event = (changed: unknown) => updateEvent('a', { [name]: changed } as Partial<Session>);
    const opened = stateWith({ ...bare, [name]: value } as unknown as Session);
    assert.deepEqual(shown(opened), [value, value], `${name} of a new session`);
    const updated = applyAll(stateWith(bare as unknown as Session), event(value));
    assert.deepEqual(shown(updated), [value, value], `${name} of an event`);
    assert.deepEqual(shown(applyAll(updated, event(removal))), [undefined, undefined], `${name} after its removal`);
  }
});

test('an event sets and removes the optional fields of a session; events of an older hub leave them unchanged', () => {
  const full = session('a', { lastMessageAt: 5 });
  const update = { unseenSince: 7, activity: 'npm test', endedAt: 8, muted: true, thinking: true, thinkingAt: 6 };
  const updated = mergeSummary(toSummary(full), update);
  const { id: _, ...all } = updated;
  assert.deepEqual(
    [updated.unseenSince, updated.activity, updated.endedAt, updated.muted, updated.thinkingAt, updated.lastMessageAt],
    [7, 'npm test', 8, true, 6, 5],
  );
  const removal = { unseenSince: null, endedAt: null, muted: false } as unknown as Partial<Session>;
  const removed = mergeSummary(updated, { ...removal, thinking: false });
  assert.deepEqual(
    ['unseenSince', 'endedAt', 'muted', 'activity'].filter((name) => name in removed),
    [],
    'the activity ends with the work',
  );
  assert.deepEqual(mergeSession({ ...full, ...update }, { ...removal, thinking: false }).unseenSince, undefined);
  assert.equal(all.updatedAt, 1);
});

test('an unused session has the title "New session", and comes after the sessions in use', () => {
  const withState = (id: string, lifecycleState: string, more: Partial<Session> = {}) =>
    toSummary(session(id, { metadata: { path: '/a', host: 'h', lifecycleState }, ...more }));
  const sorted = sortSessions([
    withState('unused', 'initializing', { updatedAt: 120_000 }),
    withState('used', 'running'),
    withState('ended', 'completed', { active: false }),
  ]);
  assert.deepEqual(pluck(sorted, 'id'), ['used', 'unused', 'ended']);
  assert.deepEqual(sorted.map(sessionTitle), ['a', 'New session', 'a']);
  assert.equal(sessionTitle({ id: 'x', metadata: { path: '/a', name: 'Mine', lifecycleState: 'initializing' } }), 'Mine');
});

test('a session has failed while it is active and its CLI says so', () => {
  const failed = session('a', { metadata: { path: '/a', host: 'h', lifecycleState: 'failed' } });
  assert.deepEqual(
    [hasFailed(failed), hasFailed(toSummary(failed)), hasFailed({ ...failed, active: false }), hasFailed(session('b'))],
    [true, true, false, false],
  );
});

test('while the list is in use, it keeps its order and shows no new sessions', () => {
  const all = ['a', 'b', 'c', 'new'].map((id) => toSummary(session(id)));
  assert.deepEqual(pluck(sortAsBefore(all, ['c', 'gone', 'a', 'b']), 'id'), ['c', 'a', 'b']);
});

test('a session has ended if its CLI said so, and is not connected if its CLI went silent', () => {
  const inactive = (silentMs: number, lifecycleState?: string) =>
    hasEnded(
      session('a', {
        active: false,
        activeAt: 1000,
        updatedAt: 1000 + silentMs,
        metadata: { path: '/a', host: 'h', ...(lifecycleState === undefined ? {} : { lifecycleState }) },
      }),
    );
  assert.deepEqual([inactive(0), inactive(29_999), inactive(30_000), inactive(3_600_000)], [true, true, false, false]);
  assert.deepEqual(
    ['completed', 'aborted', 'archived', 'running', 'paused'].map((state) => inactive(60_000, state)),
    [true, true, true, false, false],
  );
});

test('a session is in the terminal by its mode, or by its lifecycle state in the list', () => {
  const local = session('a', { mode: 'local', metadata: { path: '/a', host: 'h', lifecycleState: 'paused' } });
  assert.deepEqual(
    [isInTerminal(local), isInTerminal(toSummary(local)), isInTerminal({ ...local, mode: 'remote' }), isInTerminal(session('b'))],
    [true, true, false, false],
  );
});

test('titles a session by name, summary, directory or id, and finds it by its words', () => {
  const title = (metadata: Session['metadata']) => sessionTitle({ id: '0123456789', metadata });
  const base = { path: '/code/demo', host: 'h' };
  assert.deepEqual(
    [title({ ...base, name: 'N', summary: { text: 'S' } }), title({ ...base, summary: { text: 'S' } }), title(base), title(null)],
    ['N', 'S', 'demo', '01234567'],
  );
  const summary = toSummary(session('a', { metadata: { path: '/code/demo', host: 'laptop', name: 'Fix it', agentName: 'Zeta Coder' } }));
  assert.deepEqual(
    ['fix', 'DEMO laptop', 'zeta', 'it q', 'phone'].map((query) => matchesQuery(summary, query)),
    [true, true, true, false, false],
  );
});

test('trims the oldest messages of a long conversation', () => {
  const many = (count: number) => loadedConversation(...Array.from({ length: count }, (_, index) => index + 1));
  assert.equal(trimOldest(many(400)).messages.length, 400);
  const read = trimNewest(many(4001));
  assert.deepEqual([seqs(read)[0], seqs(read).at(-1), read.hasNewer], [1, 3000, true]);
  assert.equal(trimNewest(many(4000)).messages.length, 4000);
  const trimmed = trimOldest(many(401));
  assert.deepEqual([seqs(trimmed)[0], seqs(trimmed).at(-1), trimmed.hasOlder], [202, 401, true]);
  assert.equal(seqs(withOlderPage(trimmed, [message(201)], true))[0], 201);
  // A repeated event of a trimmed message changes nothing.
  assert.deepEqual(withMessage(trimmed, message(5)), { conversation: trimmed });
});

const delta = (offset: number, text: string, id = 'l1', more: object = {}): HubEvent => ({
  type: 'message-delta',
  sessionId: 'a',
  id,
  offset,
  text,
  ...more,
});
const streaming = (...events: HubEvent[]) =>
  applyAll({ ...EMPTY_STATE, conversations: { a: loadedConversation(1) } }, ...events).conversations.a!;

const pieces = (...events: HubEvent[]) => streaming(...events).live[0]?.pieces.map(({ start, text }) => [start, text]);

test('live text grows by deltas, and a delta that overlaps replaces the rest', () => {
  assert.deepEqual(streaming(delta(0, 'Hel'), delta(3, 'lo')).live, [{ id: 'l1', kind: 'text', pieces: [{ start: 0, text: 'Hello' }] }]);
  assert.deepEqual(pieces(delta(0, 'Hel'), delta(3, 'lo'), delta(3, 'p!')), [[0, 'Help!']]);
  assert.deepEqual(pluck(streaming(delta(0, 'hm', 'l1', { kind: 'thinking' }), delta(0, 'ok', 'l2')).live, 'id', 'kind'), [
    ['l1', 'thinking'],
    ['l2', 'text'],
  ]);
});

test('live text with a missing delta continues in another piece, until the text is sent again', () => {
  assert.deepEqual(pieces(delta(5, 'later'), delta(10, '!')), [[5, 'later!']]);
  assert.deepEqual(pieces(delta(0, 'one'), delta(9, 'three'), delta(14, ' four')), [
    [0, 'one'],
    [9, 'three four'],
  ]);
  assert.deepEqual(pieces(delta(0, 'one'), delta(9, 'three'), delta(10, 'X')), [
    [0, 'one'],
    [9, 'tX'],
  ]);
  assert.deepEqual(pieces(delta(0, 'one'), delta(9, 'three'), delta(2, 'X')), [[0, 'onX']]);
  assert.deepEqual(pieces(delta(5, 'later'), delta(0, 'and later')), [[0, 'and later']]);
});

test('a stored message ends the live text with its local id, and later deltas of it are ignored', () => {
  const stored: HubEvent = { type: 'message-received', sessionId: 'a', message: message(2, 'l1') };
  const conversation = streaming(delta(0, 'Hel'), delta(0, 'next', 'l2'), stored, delta(0, 'Hello'));
  assert.deepEqual([seqs(conversation), conversation.live.map(({ id }) => id)], [[1, 2], ['l2']]);
  assert.deepEqual(withNewerPage(streaming(delta(0, 'x')), [message(2, 'l1')]).live, []);
});

test('live text has limits', () => {
  assert.equal(streaming(...Array.from({ length: 20 }, (_, index) => delta(0, 'x', `l${index}`))).live.length, 8);
  assert.deepEqual(pieces(delta(0, 'x'.repeat(200_000)), delta(200_000, 'y')), [[100_001, `${'x'.repeat(99_999)}y`]], 'the end continues');
  assert.deepEqual(pieces(...Array.from({ length: 21 }, (_, index) => delta(10 * index, 'x'))), [[200, 'x']]);
});

test('live text before the first page is shown with the page, unless the page contains the message', () => {
  const loading: Conversation = { ...EMPTY_CONVERSATION, loadState: { status: 'loading' } };
  for (const conversations of [{ a: loading }, {}]) {
    const { a } = applyAll({ ...EMPTY_STATE, conversations }, delta(0, 'one'), delta(0, 'two', 'l2')).conversations;
    assert.deepEqual(pluck(withNewestPage(a!, [message(1, 'l1')], false).live, 'id'), ['l2']);
  }
});

test('all live text can be dropped', () => {
  const { a, b } = withoutLiveText({ a: streaming(delta(0, 'x')), b: loadedConversation(3) });
  assert.deepEqual([a?.live, b && seqs(b)], [[], [3]]);
});
