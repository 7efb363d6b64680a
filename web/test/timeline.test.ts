// A conversation as it is shown.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../src/api/types.ts';
import { timeline, type ToolItem } from '../src/content/timeline.ts';

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
const said = () => block({ type: 'text', text: 'next' });
const ready = () => message({ role: 'agent', content: { type: 'event', data: { type: 'ready' } } });

test('the pieces of an output stand with their call, wherever they came', () => {
  const items = timeline([call('a'), call('b'), piece('a', 'one\n'), piece('b', 'x'), piece('a', 'two')], [], WORKING);
  assert.deepEqual(items.map((item) => (item as ToolItem).output), ['one\ntwo', 'x']);
});

test('a call runs until it fails, the agent goes on to something else, waits, or is gone', () => {
  const stateOf = (doing: typeof WORKING, ...messages: Message[]) => (timeline(messages, [], doing)[0] as ToolItem).state;
  const begun = call('a');
  assert.equal(stateOf(WORKING, begun), 'running');
  // It may wait for a permission.
  assert.equal(stateOf(WAITING, begun), 'running');
  assert.equal(stateOf(GONE, begun), 'done');
  assert.equal(stateOf(WORKING, begun, piece('a', 'x')), 'running');
  assert.equal(stateOf(WAITING, begun, piece('a', 'x')), 'done');
  assert.equal(stateOf(WORKING, begun, call('b')), 'running');
  for (const next of [call('b'), said(), ready()]) assert.equal(stateOf(WORKING, begun, piece('a', 'x'), next), 'done');
  assert.equal(stateOf(WORKING, begun, ready()), 'done');
  assert.equal(stateOf(WORKING, begun, piece('a', 'x', true), said()), 'failed');
});

test('todos are written at once', () => {
  const [item] = timeline([block({ type: 'tool_use', id: 't', name: 'TodoWrite', input: {} })], [], WORKING);
  assert.equal((item as ToolItem).state, 'done');
});

test('results whose call is not loaded are one, and are not lost', () => {
  const items = timeline([piece('z', 'one '), piece('z', 'two', true)], [], WORKING);
  assert.equal(items.length, 1);
  assert.deepEqual([items[0]?.kind, (items[0] as { text: string }).text, (items[0] as { isError: boolean }).isError], ['result', 'one two', true]);
});

test('every item has a key of its own, and outgoing messages come last', () => {
  const outgoing = { localId: 'l', text: 'hi', attachments: [], createdAt: 0, state: 'sending' as const };
  const two = message({ role: 'agent', content: [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }] });
  const items = timeline([two, ready()], [outgoing], WORKING);
  assert.equal(new Set(items.map(({ key }) => key)).size, 4);
  assert.equal(items.at(-1)?.key, 'l');
});
