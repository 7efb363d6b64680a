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
const ready = () => message({ role: 'agent', content: { type: 'event', data: { type: 'ready' } } });

test('the pieces of an output stand with their call, wherever they came', () => {
  const items = timeline([call('a'), call('b'), piece('a', 'one\n'), piece('b', 'x'), piece('a', 'two')], [], true);
  assert.deepEqual(items.map((item) => (item as ToolItem).output), ['one\ntwo', 'x']);
});

test('a call runs until it fails, the turn ends, or the agent is gone', () => {
  const stateOf = (messages: Message[], isBusy = true) => (timeline(messages, [], isBusy)[0] as ToolItem).state;
  const begun = call('a');
  assert.equal(stateOf([begun]), 'running');
  assert.equal(stateOf([begun], false), 'done');
  assert.equal(stateOf([begun, piece('a', 'x'), ready()]), 'done');
  assert.equal(stateOf([begun, piece('a', 'x', true), ready()]), 'failed');
});

test('results whose call is not loaded are one, and are not lost', () => {
  const items = timeline([piece('z', 'one '), piece('z', 'two', true)], [], true);
  assert.equal(items.length, 1);
  assert.deepEqual([items[0]?.kind, (items[0] as { text: string }).text, (items[0] as { isError: boolean }).isError], ['result', 'one two', true]);
});

test('every item has a key of its own, and outgoing messages come last', () => {
  const outgoing = { localId: 'l', text: 'hi', attachments: [], createdAt: 0, state: 'sending' as const };
  const two = message({ role: 'agent', content: [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }] });
  const items = timeline([two, ready()], [outgoing], true);
  assert.equal(new Set(items.map(({ key }) => key)).size, 4);
  assert.equal(items.at(-1)?.key, 'l');
});
