// Contents of messages, taken apart.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse, plain, todosOf } from '../src/content/parse.ts';

const output = (...content: unknown[]) => ({ role: 'agent', content: { type: 'output', data: { type: 'assistant', message: { role: 'assistant', content } } } });

test('a message of the web is what its person wrote, with its files', () => {
  const attachments = [{ id: '1', filename: 'a.png', mimeType: 'image/png', size: 3, path: '/tmp/a.png' }];
  const content = { role: 'user', content: { type: 'text', text: 'hello', attachments }, meta: { sentFrom: 'web' } };
  assert.deepEqual(parse(content), [{ kind: 'user', text: 'hello', attachments, from: 'web' }]);
  const typed = { role: 'user', content: { type: 'text', text: 'ls' }, meta: { sentFrom: 'cli' } };
  assert.deepEqual(parse(typed), [{ kind: 'user', text: 'ls', attachments: [], from: 'cli' }]);
});

test('an output record has texts, thoughts and calls in their order', () => {
  const parts = parse(output({ type: 'thinking', thinking: 'hm' }, { type: 'text', text: 'I look.' }, { type: 'tool_use', id: 't', name: 'Bash', input: { command: 'ls' } }));
  assert.deepEqual(parts, [
    { kind: 'thinking', text: 'hm' },
    { kind: 'text', text: 'I look.' },
    { kind: 'tool', id: 't', name: 'Bash', input: { command: 'ls' } },
  ]);
});

test('a result names the call that it belongs to', () => {
  const content = (more: object) => ({ role: 'agent', content: { type: 'output', data: { type: 'user', message: { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', ...more }] } } } });
  assert.deepEqual(parse(content({ content: 'out' })), [{ kind: 'result', id: 't', text: 'out', images: [], isError: false }]);
  assert.deepEqual(parse(content({ content: [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }], is_error: true })), [{ kind: 'result', id: 't', text: 'a\nb', images: [], isError: true }]);
});

test('records of other kinds of agents are understood as well', () => {
  const of = (data: object) => parse({ role: 'assistant', content: { type: 'beta', data } });
  assert.deepEqual(of({ type: 'message', message: 'hi' }), [{ kind: 'text', text: 'hi' }]);
  assert.deepEqual(of({ type: 'reasoning', message: 'hm' }), [{ kind: 'thinking', text: 'hm' }]);
  assert.deepEqual(of({ type: 'tool-call', callId: 'c', name: 'shell', input: { command: ['ls', '-l'] } }), [{ kind: 'tool', id: 'c', name: 'shell', input: { command: ['ls', '-l'] } }]);
  assert.deepEqual(of({ type: 'tool-call-result', callId: 'c', output: { code: 0 } }), [{ kind: 'result', id: 'c', text: '{\n  "code": 0\n}', images: [], isError: false }]);
  assert.deepEqual(of({ type: 'plan', entries: [{ content: 'one', status: 'completed', priority: 'high' }] }), [
    { kind: 'plan', todos: [{ id: '0', content: 'one', status: 'completed', priority: 'high' }] },
  ]);
});

test('a record may stand inside of another object', () => {
  const record = { role: 'agent', content: 'hi' };
  for (const content of [record, { message: record }, { data: { message: record } }, { payload: { message: record } }]) {
    assert.deepEqual(parse(content), [{ kind: 'text', text: 'hi' }]);
  }
});

test('an event has a name, bare or in a record', () => {
  const ready = { type: 'event', data: { type: 'ready' } };
  const part = { kind: 'event', name: 'ready', text: undefined };
  assert.deepEqual(parse(ready), [part]);
  assert.deepEqual(parse({ role: 'agent', content: ready }), [part]);
  assert.deepEqual(parse({ type: 'event', data: { type: 'switch', mode: 'remote' } }), [{ kind: 'event', name: 'switch', text: 'remote' }]);
});

test('pictures come as addresses that hold them, from an agent as from a tool', () => {
  const png = 'data:image/png;base64,AAAA';
  const sourced = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };
  const served = { type: 'image', data: 'AAAA', mimeType: 'image/png' };
  assert.deepEqual(parse(output(sourced)), [{ kind: 'image', url: png }]);
  const content = [sourced, { type: 'text', text: 'two pictures' }, served];
  assert.deepEqual(parse(output({ type: 'tool_result', tool_use_id: 't', content })), [{ kind: 'result', id: 't', text: 'two pictures', images: [png, png], isError: false }]);
  for (const none of [{ type: 'image' }, { type: 'image', data: 'AAAA', mimeType: 'text/html' }, { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }]) {
    assert.deepEqual(parse(output(none)), [{ kind: 'unknown', json: none }]);
  }
});

test('what was typed at the prompt of an agent is its person’s', () => {
  const content = { role: 'agent', content: { type: 'output', data: { type: 'user', message: { role: 'user', content: 'fix it' } } } };
  assert.deepEqual(parse(content), [{ kind: 'user', text: 'fix it', attachments: [], from: 'cli' }]);
});

test('whatever is not known is kept as it is', () => {
  for (const content of [null, 7, [], {}, { a: 1 }, { role: 'user' }, { role: 'user', content: { type: 'image' } }, { role: 'agent', content: null }, { role: 'agent', content: { type: 'output', data: { type: 'system' } } }]) {
    const parts = parse(content);
    if (Array.isArray(content)) assert.deepEqual(parts, []);
    else assert.deepEqual(parts, [{ kind: 'unknown', json: content }], JSON.stringify(content));
  }
  const block = { type: 'tool_use', name: 7 };
  assert.deepEqual(parse(output({ type: 'text', text: 'a' }, block)), [{ kind: 'text', text: 'a' }, { kind: 'unknown', json: block }]);
});

test('of todos only those with a text are taken, and what they leave out is filled in', () => {
  assert.deepEqual(todosOf([{ content: 'a' }, { content: 7 }, null, { id: 'x', content: 'b', status: 'in_progress', priority: 'low' }]), [
    { id: '0', content: 'a', status: 'pending', priority: 'medium' },
    { id: 'x', content: 'b', status: 'in_progress', priority: 'low' },
  ]);
  assert.deepEqual(todosOf('nonsense'), []);
});

test('an output is text, whatever it was', () => {
  assert.deepEqual([plain('a'), plain(null), plain(undefined), plain({ a: 1 })], ['a', '', '', '{\n  "a": 1\n}']);
});
