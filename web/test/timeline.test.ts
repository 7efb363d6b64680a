// The timeline of a conversation.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CompletedRequest, Message } from '../src/api/types.ts';
import { type AgentActivity, buildTimeline as timelineOf, type TimelineInput } from '../src/content/timeline.ts';
import type { TextItem, ToolItem } from '../src/content/timeline-item.ts';
import type { LiveText } from '../src/content/unstored-messages.ts';
import { pluck } from './support/pluck.ts';

let seq = 0;
function message(content: unknown): Message {
  seq += 1;
  return { id: `m${seq}`, seq, localId: null, content, createdAt: seq };
}
const block = (content: object) =>
  message({ role: 'agent', content: { type: 'output', data: { type: 'assistant', message: { content: [content] } } } });
const call = (id: string) => block({ type: 'tool_use', id, name: 'Bash', input: {} });
const result = (id: string, content: string, is_error = false) => block({ type: 'tool_result', tool_use_id: id, content, is_error });
const WORKING = { active: true, thinking: true };
const IDLE = { active: true, thinking: false };
const ENDED = { active: false, thinking: false };
const timeline = (messages: Message[], activity: AgentActivity, more: Partial<TimelineInput> = {}) =>
  timelineOf({ messages, outgoing: [], hasOlder: false, ...more }, activity);
const text = () => block({ type: 'text', text: 'next' });
const ready = () => message({ role: 'agent', content: { type: 'event', data: { type: 'ready' } } });

test('appends results to their call', () => {
  const items = timeline([call('a'), call('b'), result('a', 'one\n'), result('b', 'x'), result('a', 'two')], WORKING);
  assert.deepEqual(
    items.map((item) => (item as ToolItem).output),
    ['one\ntwo', 'x'],
  );
});

test('a call runs until it fails, or the agent continues, becomes idle, or ends', () => {
  const stateOf = (activity: AgentActivity, ...messages: Message[]) => (timeline(messages, activity)[0] as ToolItem).state;
  const started = call('a');
  assert.equal(stateOf(WORKING, started), 'running');
  // The call may wait for a permission.
  assert.equal(stateOf(IDLE, started), 'running');
  assert.equal(stateOf(ENDED, started), 'done');
  assert.equal(stateOf({ ...IDLE, isStored: true }, started), 'unknown', 'the call may have ended after it was stored');
  assert.equal(stateOf(WORKING, started, result('a', 'x')), 'running');
  assert.equal(stateOf(IDLE, started, result('a', 'x')), 'done');
  assert.equal(stateOf(WORKING, started, call('b')), 'running');
  // A user message does not end a call.
  assert.equal(stateOf(WORKING, started, result('a', 'x'), message({ role: 'user', content: { type: 'text', text: 'and?' } })), 'running');
  for (const next of [call('b'), text(), ready()]) assert.equal(stateOf(WORKING, started, result('a', 'x'), next), 'done');
  assert.equal(stateOf(WORKING, started, ready()), 'done');
  assert.equal(stateOf(WORKING, started, result('a', 'x', true), text()), 'failed');
});

test('a call waits for the user while its permission request is pending', () => {
  const stateOf = (requests: object, activity: AgentActivity, ...messages: Message[]) =>
    (timeline(messages, activity, { requests: { ...requests } })[0] as ToolItem).state;
  const started = call('a');
  for (const activity of [WORKING, IDLE, ENDED]) assert.equal(stateOf({ a: {} }, activity, started), 'waiting');
  assert.equal(stateOf({ 'a#2': {} }, WORKING, started), 'waiting', 'the second request of the call');
  assert.equal(stateOf({ b: {} }, WORKING, started), 'running', 'the request of another call');
  assert.equal(stateOf({ a: {} }, WORKING, started, result('a', 'x', true)), 'failed');
});

test('a call with output is done while the agent writes, or with its final result', () => {
  const live = [liveText('l', 'It pas')];
  const stateOf = (more: Partial<TimelineInput>, ...messages: Message[]) => (timeline(messages, WORKING, more)[0] as ToolItem).state;
  const started = call('a');
  assert.equal(stateOf({ live }, started, result('a', 'x')), 'done');
  assert.equal(stateOf({ live }, started), 'running', 'another call of the agent may still run');
  assert.equal(stateOf({ live: [liveText('l', ' ')] }, started, result('a', 'x')), 'running');
  const last = block({ type: 'tool_result', tool_use_id: 'a', content: 'y', is_final: true });
  assert.equal(stateOf({}, started, result('a', 'x'), last), 'done');
});

test('a todo call is done at once', () => {
  const [item] = timeline([block({ type: 'tool_use', id: 't', name: 'TodoWrite', input: {} })], WORKING);
  assert.equal((item as ToolItem).state, 'done');
});

test('merges results whose call is not loaded', () => {
  const items = timeline([result('z', 'one '), result('z', 'two', true)], WORKING);
  assert.equal(items.length, 1);
  assert.deepEqual(
    [items[0]?.kind, (items[0] as { text: string }).text, (items[0] as { isError: boolean }).isError],
    ['result', 'one two', true],
  );
});

test('a user message is queued while the CLI lists its seq', () => {
  const sent = [
    message({ role: 'user', content: { type: 'text', text: 'first' } }),
    message({ role: 'user', content: { type: 'text', text: 'second' } }),
  ];
  const marks = (queued: unknown) => timeline(sent, WORKING, { queued }).map((item) => (item as { isQueued: boolean }).isQueued);
  assert.deepEqual(marks([sent[1]?.seq]), [false, true]);
  assert.deepEqual(marks(undefined), [false, false]);
  // Another CLI may use the field for something else.
  assert.deepEqual(marks(2), [false, false]);
});

test('a message that waits in the queue is below the answer that runs, stored or live', () => {
  const user = (words: string) => message({ role: 'user', content: { type: 'text', text: words } });
  const messages = [user('first'), user('second'), block({ type: 'text', text: 'stored' })];
  const textsOf = (queued: unknown) =>
    timeline(messages, WORKING, { queued, live: [liveText('l', 'live')] }).map((item) => (item as TextItem).text);
  assert.deepEqual(textsOf([messages[1]?.seq]), ['first', 'stored', 'live', 'second']);
  assert.deepEqual(textsOf([]), ['first', 'second', 'stored', 'live'], 'the agent has received it');
});

test('gives each item a unique key and puts outgoing messages last', () => {
  const outgoing = { localId: 'l', text: 'hi', attachments: [], createdAt: 0, status: 'sending' as const };
  const two = message({
    role: 'agent',
    content: [
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ],
  });
  const items = timeline([two, ready()], WORKING, { outgoing: [outgoing] });
  assert.equal(new Set(items.map(({ key }) => key)).size, 4);
  assert.equal(items.at(-1)?.key, 'l');
});

const BASH = { tool: 'Bash', arguments: { command: 'ls' } };
const APPROVED: CompletedRequest = { ...BASH, status: 'approved', decision: 'approved' };
const kinds = (items: ReturnType<typeof timeline>) => items.map(({ kind }) => kind);

test('attaches a completed request to the call with its id', () => {
  const items = timeline([call('r1'), call('other')], WORKING, { completed: { r1: APPROVED } });
  assert.deepEqual(kinds(items), ['tool', 'tool']);
  assert.deepEqual(
    items.map((item) => (item as ToolItem).permission),
    [APPROVED, undefined],
  );
});

test('a denied call has failed', () => {
  const [item] = timeline([call('r1')], WORKING, { completed: { r1: { ...BASH, status: 'denied' } } });
  assert.equal((item as ToolItem).state, 'failed');
});

test('inserts a completed request without a call by its time', () => {
  const all = [text(), text(), text()];
  const timeOf = (index: number) => (all[index] as Message).createdAt;
  const completed = {
    late: { ...BASH, createdAt: 0, completedAt: timeOf(2) + 1 },
    early: { ...BASH, completedAt: timeOf(0) + 0.5 },
    pending: { ...BASH, createdAt: timeOf(1) + 0.5 },
  };
  const items = timeline(all, WORKING, { completed });
  assert.deepEqual(
    items.map(({ key, kind }) => (kind === 'permission' ? key : kind)),
    ['text', 'permission early', 'text', 'permission pending', 'text', 'permission late'],
  );
  assert.deepEqual(kinds(timeline([], IDLE, { completed })), ['permission', 'permission', 'permission']);
});

test('omits completed requests that are older than the loaded messages', () => {
  const all = [text(), text()];
  const completed = { old: { ...APPROVED, completedAt: (all[0] as Message).createdAt - 1 } };
  assert.deepEqual(kinds(timeline(all, WORKING, { completed, hasOlder: true })), ['text', 'text']);
  assert.deepEqual(kinds(timeline(all, WORKING, { completed })), ['permission', 'text', 'text']);
});

test('adds the images of a result to its call', () => {
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };
  const result = block({ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'seen' }, image] });
  const [item] = timeline([call('a'), result], WORKING) as ToolItem[];
  assert.deepEqual([item?.output, item?.images], ['seen', ['data:image/png;base64,AAAA']]);
});

test('handles a result that is too deep for recursion', () => {
  const depth = 6000;
  const deep: unknown = JSON.parse(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`);
  const result = block({ type: 'tool_result', tool_use_id: 'a', content: deep });
  const [deepCall, nextItem] = timeline([call('a'), result, text()], WORKING);
  assert.equal((deepCall as ToolItem).output.replace(/\s/g, ''), `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`);
  assert.equal(nextItem?.kind, 'text');
});

test('a message that cannot be parsed does not affect others', () => {
  const invalid = {
    get role(): string {
      throw new Error('invalid');
    },
  };
  assert.deepEqual(kinds(timeline([message(invalid), text()], WORKING)), ['unknown', 'text']);
});

test('a changed copy of a message has the parts of its own content', () => {
  const before = text();
  assert.equal((timeline([before], IDLE)[0] as TextItem).text, 'next');
  const after = { ...before, content: block({ type: 'text', text: 'changed' }).content };
  assert.equal((timeline([after], IDLE)[0] as TextItem).text, 'changed');
});

test('the end of a turn is below text that follows it within two seconds', () => {
  const at = (createdAt: number, content: Message) => ({ ...content, createdAt });
  const user = () => message({ role: 'user', content: { type: 'text', text: 'go' } });
  const kindsAt = (...messages: Message[]) => kinds(timeline(messages, IDLE));
  assert.deepEqual(kindsAt(at(0, user()), at(1_000, ready()), at(1_200, text()), at(2_900, text()), at(9_000, user())), [
    'user',
    'text',
    'text',
    'event',
    'user',
  ]);
  assert.deepEqual(kindsAt(at(0, text()), at(1_000, ready()), at(3_001, text())), ['text', 'event', 'text'], 'the next turn');
  assert.deepEqual(kindsAt(at(0, ready()), at(500, user()), at(600, text())), ['event', 'user', 'text'], 'a user message begins a turn');
  assert.deepEqual(kindsAt(at(0, ready()), at(500, call('a')), at(600, text())), ['event', 'tool', 'text'], 'a call begins a turn');
  assert.deepEqual(kindsAt(at(0, ready()), at(500, text()), at(600, ready())), ['text', 'event', 'event']);
});

const liveText = (id: string, text: string, kind: LiveText['kind'] = 'text', start = 0): LiveText => ({
  id,
  kind,
  pieces: [{ start, text }],
});

test('puts live text after the messages, with the key of the message that will replace it', () => {
  const stored = { ...text(), localId: 'l1' };
  const live = [liveText('l1', 'ne'), liveText('l2', ' ', 'thinking')];
  const outgoing = { localId: 'o', text: 'hi', attachments: [], createdAt: 0, status: 'sending' as const };
  const items = timeline([call('a')], WORKING, { live, outgoing: [outgoing] });
  assert.deepEqual(pluck(items, 'kind'), ['tool', 'text', 'outgoing'], 'blank text is not shown');
  assert.equal(items[1]?.key, timeline([stored], WORKING)[0]?.key);
  assert.deepEqual(pluck(timeline([call('a')], ENDED, { live }), 'kind'), ['tool'], 'the agent has ended');
});

test('live text shows where text is missing, and is marked if its beginning is missing', () => {
  const [item] = timeline([], WORKING, {
    live: [
      {
        id: 'l',
        kind: 'text',
        pieces: [
          { start: 0, text: 'one' },
          { start: 9, text: 'three' },
        ],
      },
    ],
  });
  assert.deepEqual([(item as TextItem).text, (item as TextItem).isTail], ['one\n…\nthree', false]);
  const [tail] = timeline([], WORKING, { live: [liveText('l', 'three', 'text', 9)] });
  assert.deepEqual([(tail as TextItem).text, (tail as TextItem).isTail], ['…three', true]);
});

const FENCES = { end: '```', start: '```js\n' };
const part = (localId: string, value: string, next?: string): Message => ({
  ...block({ type: 'text', text: value, ...(next === undefined ? {} : { continuedBy: { localId: next, ...FENCES } }) }),
  localId,
});
const textsOf = (items: ReturnType<typeof timeline>) => items.map((item) => (item as TextItem).text);

test('parts of a text are one item, stored or live', () => {
  const first = part('p1', 'Look:\n```js\none\n```', 'p2');
  const second = part('p2', '```js\ntwo\n```', 'p3');
  const user = message({ role: 'user', content: { type: 'text', text: 'and?' } });
  const whole = timeline([first, user, second, part('p3', '```js\nthree\n```\nDone.')], WORKING);
  assert.deepEqual(textsOf(whole), ['Look:\n```js\none\ntwo\nthree\n```\nDone.', 'and?']);
  assert.equal((whole[0] as TextItem).isLive, false);
  assert.equal(whole[0]?.key, timeline([first], WORKING)[0]?.key, 'the key of the first part');

  const [growing] = timeline([first, second], WORKING, { live: [liveText('p3', '```js\nthr')] });
  assert.deepEqual([(growing as TextItem).text, (growing as TextItem).isLive], ['Look:\n```js\none\ntwo\nthr', true]);
  assert.deepEqual(textsOf(timeline([first], WORKING, { live: [liveText('p2', '``')] })), ['Look:\n```js\none\n']);
  assert.deepEqual(textsOf(timeline([first], WORKING, { live: [liveText('p2', 'o', 'text', 9)] })), ['Look:\n```js\none\n…o']);
  assert.deepEqual(textsOf(timeline([second], WORKING)), ['```js\ntwo\n```'], 'the first part is not loaded');
});

test('a text that is not complete is live until its next part, another action of the agent, or the end of the turn', () => {
  const first = part('p1', '```js\none\n```', 'p2');
  const isLive = (activity: AgentActivity, ...more: Message[]) => (timeline([first, ...more], activity)[0] as TextItem).isLive ?? false;
  assert.deepEqual([isLive(WORKING), isLive(IDLE), isLive(ENDED)], [true, false, false]);
  assert.equal(isLive(WORKING, message({ role: 'user', content: { type: 'text', text: 'and?' } })), true);
  assert.equal(isLive(WORKING, text()), false);
});

test('parts that do not fit together are separate items', () => {
  const first = part('p1', '```js\none\n```', 'p2');
  const thought = { ...block({ type: 'thinking', thinking: '```js\nhm' }), localId: 'p2' };
  for (const next of [part('other', '```js\ntwo'), part('p2', 'two'), thought]) {
    assert.equal(timeline([first, next], WORKING).length, 2);
  }
  assert.equal(timeline([part('p1', 'one', 'p2'), part('p2', '```js\ntwo')], WORKING).length, 2, 'the end is another one');
  const invalid = block({ type: 'text', text: 'one', continuedBy: { localId: 2 } });
  assert.equal(timeline([invalid, text()], WORKING).length, 2);
});

/** A message of the user, and the records of a CLI about its queue. */
const said = (value: string) => message({ role: 'user', content: { type: 'text', text: value } });
const note = (sentence: string, ...queued: object[]) =>
  message({ role: 'agent', content: { type: 'event', data: { type: 'message', message: sentence, queued } } });
const started = (id: string) =>
  message({ role: 'agent', content: { type: 'output', data: { type: 'queue', isMeta: true, queued: [{ id, change: 'started' }] } } });
const shown = (messages: Message[]) =>
  timeline(messages, IDLE).map((item) => ('text' in item ? `${item.kind}: ${item.text}` : item.kind === 'event' ? item.name : item.kind));

test('a message that has waited is shown where the agent received the message', () => {
  const [first, waiting, other] = [said('first'), said('waiting'), said('other')];
  const record = started(other.id);
  const messages = [first, waiting, text(), other, ready(), record, text(), started(waiting.id), text()];
  assert.deepEqual(shown(messages), [
    'user: first',
    'text: next',
    'event: undefined',
    'user: other',
    'text: next',
    'user: waiting',
    'text: next',
  ]);
  const moved = timeline(messages, IDLE).find((item) => item.kind === 'user' && item.text === 'other');
  // A search that finds the message shows the place to which it has moved.
  assert.deepEqual([moved?.seq, moved?.moreSeqs], [record.seq, [other.seq]]);
});

test('an edited message has the text that the agent received, and a canceled message stays at its place', () => {
  const [first, typo, dropped] = [said('first'), said('typo'), said('dropped')];
  const edited = note('The agent receives the edited message:\nfixed', { id: typo.id, change: 'started', text: 'fixed' });
  const canceled = note('Canceled, not run:\ndropped', { id: dropped.id, change: 'canceled' });
  const items = timeline([first, typo, dropped, canceled, text(), edited, text()], IDLE);
  assert.deepEqual(
    items.map((item) => item.kind === 'user' && [item.text, item.outcome]),
    [['first', undefined], ['dropped', 'canceled'], false, ['fixed', 'edited'], false],
  );
});

test('a record about a message that is not loaded shows what happened', () => {
  assert.deepEqual(
    shown([
      note('Canceled, not run:\nold', { id: 'not loaded', change: 'canceled' }),
      note('The agent receives the edited message:\nfixed', { id: 'not loaded', change: 'started', text: 'fixed' }),
      started('not loaded'),
      note('A note', { id: 7, change: 'canceled' }, { id: 'x', change: 'unknown' }, 8),
    ]),
    ['event: Canceled, not run:\nold', 'user: fixed', 'event: A note'],
  );
});

/** Marks a message as one of a sub-agent. */
function ofSubagent(parent_tool_use_id: string, stored: Message): Message {
  const { role, content } = (stored as { content: { role: string; content: { type: string; data: object } } }).content;
  return { ...stored, content: { role, content: { ...content, data: { ...content.data, parent_tool_use_id } } } } as Message;
}

test('what a sub-agent does is below the call that started the sub-agent', () => {
  const messages = [call('a'), ofSubagent('a', text()), ofSubagent('a', call('b')), ofSubagent('a', result('b', 'x')), text()];
  const items = timeline(messages, WORKING);
  const [{ children = [], moreSeqs }] = items as [ToolItem];
  assert.deepEqual(pluck(items, 'kind'), ['tool', 'text']);
  assert.deepEqual(pluck(children, 'kind'), ['text', 'tool']);
  assert.equal((children[1] as ToolItem).output, 'x');
  // A search and a jump find the item by the messages of the sub-agent.
  assert.deepEqual(moreSeqs, pluck(messages.slice(1, 4), 'seq'));
});

test('the messages of a sub-agent whose call is not loaded are one item, with the output of the call', () => {
  const messages = [ofSubagent('a', text()), text(), ofSubagent('a', call('b')), ofSubagent('a', result('b', 'x')), result('a', 'found')];
  const items = timeline(messages, WORKING, { hasOlder: true });
  const [{ name, children = [], output, seq, moreSeqs }] = items as [ToolItem];
  assert.deepEqual(pluck(items, 'kind'), ['tool', 'text']);
  assert.deepEqual([name, output, pluck(children, 'kind')], ['Sub-agent', 'found', ['text', 'tool']]);
  const [first, , ...others] = pluck(messages, 'seq');
  assert.deepEqual([seq, moreSeqs], [first, [first, ...others]]);
});

test('a call runs or waits while its sub-agent does', () => {
  const started = [call('a'), ofSubagent('a', call('b')), ofSubagent('b', call('c'))];
  const stateOf = (messages: Message[], more?: Partial<TimelineInput>) => (timeline(messages, WORKING, more)[0] as ToolItem).state;
  assert.equal(stateOf(started), 'running');
  assert.equal(stateOf(started, { requests: { c: {} } }), 'waiting');
  // The sub-agent works in the background.
  const ended = block({ type: 'tool_result', tool_use_id: 'a', content: 'started', is_final: true });
  assert.equal(stateOf([...started, ended, text()]), 'running');
  assert.equal(stateOf([...started, ended, ready()]), 'done');
});

test('a text of a sub-agent does not end a call of the agent, and a text of the agent does not end a call of a sub-agent', () => {
  const items = timeline([call('a'), call('b'), result('b', 'x'), ofSubagent('a', text())], WORKING) as ToolItem[];
  assert.equal(items[1]?.state, 'running');
  const others = [call('a'), ofSubagent('a', call('b')), ofSubagent('a', result('b', 'x')), text()];
  const [{ children = [] }] = timeline(others, WORKING) as [ToolItem];
  assert.equal((children[0] as ToolItem).state, 'running');
});

test('a plan that the agent writes again changes in place, until the user’s next message', () => {
  const plan = (...todos: string[]) =>
    message({
      role: 'agent',
      content: { type: 'alpha', data: { type: 'plan', entries: todos.map((content) => ({ content, status: 'pending' })) } },
    });
  const list = (...todos: string[]) =>
    block({ type: 'tool_use', id: `t${todos.length}`, name: 'TodoWrite', input: { todos: todos.map((content) => ({ content })) } });
  const user = () => message({ role: 'user', content: { type: 'text', text: 'and?' } });
  for (const write of [plan, list]) {
    const messages = [write('a'), text(), write('a', 'b'), user(), write('a', 'b', 'c'), user()];
    const kinds = (queued: number[]) => timeline(messages, WORKING, { queued }).map(({ kind }) => kind);
    const items = timeline(messages, WORKING);
    const kind = write === plan ? 'plan' : 'tool';
    assert.deepEqual(kinds([]), [kind, 'text', 'user', kind, 'user']);
    // A message in the queue is not the start of a turn.
    assert.deepEqual(kinds([messages[3]?.seq ?? 0]), [kind, 'text', 'user', 'user']);
    const [first] = items;
    assert.equal(first?.kind === 'plan' ? first.todos.length : (first as unknown as { input: { todos: [] } }).input.todos.length, 2);
    assert.deepEqual(first?.moreSeqs, [messages[2]?.seq]);
  }
});
