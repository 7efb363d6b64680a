// A conversation as it is shown.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CompletedRequest, Message } from '../src/api/types.ts';
import { type Doing, timeline as timelineOf, type Said, type ToolItem } from '../src/content/timeline.ts';

let seq = 0;
function message(content: unknown): Message {
  seq += 1;
  return { id: `m${seq}`, seq, localId: null, content, createdAt: seq };
}
const block = (one: object) => message({ role: 'agent', content: { type: 'output', data: { type: 'assistant', message: { content: [one] } } } });
const call = (id: string) => block({ type: 'tool_use', id, name: 'Bash', input: {} });
const piece = (id: string, content: string, is_error = false) => block({ type: 'tool_result', tool_use_id: id, content, is_error });
const WORKING = { active: true, thinking: true };
const WAITING = { active: true, thinking: false };
const GONE = { active: false, thinking: false };
const timeline = (messages: Message[], doing: Doing, more: Partial<Said> = {}) => timelineOf({ messages, outgoing: [], hasOlder: false, ...more }, doing);
const said = () => block({ type: 'text', text: 'next' });
const ready = () => message({ role: 'agent', content: { type: 'event', data: { type: 'ready' } } });

test('the pieces of an output stand with their call, wherever they came', () => {
  const items = timeline([call('a'), call('b'), piece('a', 'one\n'), piece('b', 'x'), piece('a', 'two')], WORKING);
  assert.deepEqual(items.map((item) => (item as ToolItem).output), ['one\ntwo', 'x']);
});

test('a call runs until it fails, the agent goes on to something else, waits, or is gone', () => {
  const stateOf = (doing: typeof WORKING, ...messages: Message[]) => (timeline(messages, doing)[0] as ToolItem).state;
  const begun = call('a');
  assert.equal(stateOf(WORKING, begun), 'running');
  // It may wait for a permission.
  assert.equal(stateOf(WAITING, begun), 'running');
  assert.equal(stateOf(GONE, begun), 'done');
  assert.equal(stateOf(WORKING, begun, piece('a', 'x')), 'running');
  assert.equal(stateOf(WAITING, begun, piece('a', 'x')), 'done');
  assert.equal(stateOf(WORKING, begun, call('b')), 'running');
  // A person may write meanwhile.
  assert.equal(stateOf(WORKING, begun, piece('a', 'x'), message({ role: 'user', content: { type: 'text', text: 'and?' } })), 'running');
  for (const next of [call('b'), said(), ready()]) assert.equal(stateOf(WORKING, begun, piece('a', 'x'), next), 'done');
  assert.equal(stateOf(WORKING, begun, ready()), 'done');
  assert.equal(stateOf(WORKING, begun, piece('a', 'x', true), said()), 'failed');
});

test('todos are written at once', () => {
  const [item] = timeline([block({ type: 'tool_use', id: 't', name: 'TodoWrite', input: {} })], WORKING);
  assert.equal((item as ToolItem).state, 'done');
});

test('results whose call is not loaded are one, and are not lost', () => {
  const items = timeline([piece('z', 'one '), piece('z', 'two', true)], WORKING);
  assert.equal(items.length, 1);
  assert.deepEqual([items[0]?.kind, (items[0] as { text: string }).text, (items[0] as { isError: boolean }).isError], ['result', 'one two', true]);
});

test('every item has a key of its own, and outgoing messages come last', () => {
  const outgoing = { localId: 'l', text: 'hi', attachments: [], createdAt: 0, state: 'sending' as const };
  const two = message({ role: 'agent', content: [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }] });
  const items = timeline([two, ready()], WORKING, { outgoing: [outgoing] });
  assert.equal(new Set(items.map(({ key }) => key)).size, 4);
  assert.equal(items.at(-1)?.key, 'l');
});

const BASH = { tool: 'Bash', arguments: { command: 'ls' } };
const APPROVED: CompletedRequest = { ...BASH, status: 'approved', decision: 'approved' };
const kinds = (items: ReturnType<typeof timeline>) => items.map(({ kind }) => kind);

test('an answered request stands with the call that goes by its id', () => {
  const items = timeline([call('r1'), call('other')], WORKING, { completed: { r1: APPROVED } });
  assert.deepEqual(kinds(items), ['tool', 'tool']);
  assert.deepEqual(items.map((item) => (item as ToolItem).permission), [APPROVED, undefined]);
});

test('a call that was denied does not run', () => {
  const [item] = timeline([call('r1')], WORKING, { completed: { r1: { ...BASH, status: 'denied' } } });
  assert.equal((item as ToolItem).state, 'failed');
});

test('an answered request without a call stands where it fell in time, by its end or its beginning', () => {
  const all = [said(), said(), said()];
  const at = (place: number) => (all[place] as Message).createdAt;
  const completed = { late: { ...BASH, createdAt: 0, completedAt: at(2) + 1 }, early: { ...BASH, completedAt: at(0) + 0.5 }, begun: { ...BASH, createdAt: at(1) + 0.5 } };
  const items = timeline(all, WORKING, { completed });
  assert.deepEqual(items.map(({ key, kind }) => (kind === 'permission' ? key : kind)), ['text', 'permission early', 'text', 'permission begun', 'text', 'permission late']);
  assert.deepEqual(kinds(timeline([], WAITING, { completed })), ['permission', 'permission', 'permission']);
});

test('answers from before the oldest message that is here wait for their time to be read', () => {
  const all = [said(), said()];
  const completed = { old: { ...APPROVED, completedAt: (all[0] as Message).createdAt - 1 } };
  assert.deepEqual(kinds(timeline(all, WORKING, { completed, hasOlder: true })), ['text', 'text']);
  assert.deepEqual(kinds(timeline(all, WORKING, { completed })), ['permission', 'text', 'text']);
});

test('pictures of an output stand with their call', () => {
  const picture = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };
  const result = block({ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'seen' }, picture] });
  const [item] = timeline([call('a'), result], WORKING) as ToolItem[];
  assert.deepEqual([item?.output, item?.images], ['seen', ['data:image/png;base64,AAAA']]);
});

test('a result as deep as no stack is takes nothing with it', () => {
  const depth = 6000;
  const deep: unknown = JSON.parse(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`);
  const result = block({ type: 'tool_result', tool_use_id: 'a', content: deep });
  const [deepCall, words] = timeline([call('a'), result, said()], WORKING);
  assert.equal((deepCall as ToolItem).output.replace(/\s/g, ''), `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`);
  assert.equal(words?.kind, 'text');
});

test('a message that cannot be taken apart costs its own place alone', () => {
  const odd = { get role(): string { throw new Error('odd'); } };
  assert.deepEqual(kinds(timeline([message(odd), said()], WORKING)), ['unknown', 'text']);
});
