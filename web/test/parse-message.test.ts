// Parsing the content of messages.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { outputText, parseMessage, parseTodos } from '../src/content/parse-message.ts';

const output = (...content: unknown[]) => ({
  role: 'agent',
  content: { type: 'output', data: { type: 'assistant', message: { role: 'assistant', content } } },
});

test('parses a user message with its files', () => {
  const attachments = [{ id: '1', filename: 'a.png', mimeType: 'image/png', size: 3, path: '/tmp/a.png' }];
  const content = { role: 'user', content: { type: 'text', text: 'hello', attachments }, meta: { sentFrom: 'web' } };
  assert.deepEqual(parseMessage(content), [{ kind: 'user', text: 'hello', attachments, from: 'web' }]);
  const typed = { role: 'user', content: { type: 'text', text: 'ls' }, meta: { sentFrom: 'cli' } };
  assert.deepEqual(parseMessage(typed), [{ kind: 'user', text: 'ls', attachments: [], from: 'cli' }]);
});

test('parses texts, thinking and tool calls in order', () => {
  const parts = parseMessage(
    output(
      { type: 'thinking', thinking: 'hm' },
      { type: 'text', text: 'I look.' },
      { type: 'tool_use', id: 't', name: 'Bash', input: { command: 'ls' } },
    ),
  );
  assert.deepEqual(parts, [
    { kind: 'thinking', text: 'hm' },
    { kind: 'text', text: 'I look.' },
    { kind: 'tool', id: 't', name: 'Bash', input: { command: 'ls' } },
  ]);
});

test('parses a tool result with the id of its call', () => {
  const content = (more: object) => ({
    role: 'agent',
    content: {
      type: 'output',
      data: { type: 'user', message: { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', ...more }] } },
    },
  });
  assert.deepEqual(parseMessage(content({ content: 'out' })), [{ kind: 'result', id: 't', text: 'out', images: [], isError: false }]);
  assert.deepEqual(
    parseMessage(
      content({
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
        is_error: true,
      }),
    ),
    [{ kind: 'result', id: 't', text: 'a\nb', images: [], isError: true }],
  );
});

test('parses the records of agents that do not write `output` records', () => {
  const parseData = (data: object) => parseMessage({ role: 'assistant', content: { type: 'beta', data } });
  assert.deepEqual(parseData({ type: 'message', message: 'hi' }), [{ kind: 'text', text: 'hi' }]);
  assert.deepEqual(parseData({ type: 'reasoning', message: 'hm' }), [{ kind: 'thinking', text: 'hm' }]);
  assert.deepEqual(parseData({ type: 'tool-call', callId: 'c', name: 'shell', input: { command: ['ls', '-l'] } }), [
    { kind: 'tool', id: 'c', name: 'shell', input: { command: ['ls', '-l'] } },
  ]);
  assert.deepEqual(parseData({ type: 'tool-call-result', callId: 'c', output: { code: 0 } }), [
    { kind: 'result', id: 'c', text: '{\n  "code": 0\n}', images: [], isError: false },
  ]);
  assert.deepEqual(parseData({ type: 'plan', entries: [{ content: 'one', status: 'completed', priority: 'high' }] }), [
    { kind: 'plan', todos: [{ id: '0', content: 'one', status: 'completed', priority: 'high' }] },
  ]);
});

test('finds a record that is nested in another object', () => {
  const record = { role: 'agent', content: 'hi' };
  for (const content of [record, { message: record }, { data: { message: record } }, { payload: { message: record } }]) {
    assert.deepEqual(parseMessage(content), [{ kind: 'text', text: 'hi' }]);
  }
});

test('parses an event, bare or in a record', () => {
  const ready = { type: 'event', data: { type: 'ready' } };
  const part = { kind: 'event', name: 'ready', text: undefined };
  assert.deepEqual(parseMessage(ready), [part]);
  assert.deepEqual(parseMessage({ role: 'agent', content: ready }), [part]);
  assert.deepEqual(parseMessage({ type: 'event', data: { type: 'switch', mode: 'remote' } }), [
    { kind: 'event', name: 'switch', text: 'remote' },
  ]);
});

const system = (subtype: string, fields: object = {}) => ({
  role: 'agent',
  content: { type: 'output', data: { type: 'system', subtype, ...fields } },
});

test('parses the system records of an agent: its errors, compactions and recaps', () => {
  const errorOf = (fields: object) => parseMessage(system('api_error', fields));
  const overloaded = { status: 529, error: { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } } };
  assert.deepEqual(errorOf({ error: overloaded, retryAttempt: 1, maxRetries: 10 }), [
    { kind: 'error', text: 'API error: Overloaded. Retry 1 of 10.' },
  ]);
  assert.deepEqual(errorOf({ error: 'No credit.' }), [{ kind: 'error', text: 'API error: No credit.' }]);
  assert.deepEqual(errorOf({ error: {}, cause: { code: 'ConnectionRefused' } }), [
    { kind: 'error', text: 'API error: ConnectionRefused.' },
  ]);
  assert.deepEqual(errorOf({ error: { status: 503 } }), [{ kind: 'error', text: 'API error: status 503.' }]);
  assert.deepEqual(errorOf({}), [{ kind: 'error', text: 'API error: no details.' }]);
  assert.deepEqual(
    parseMessage(
      system('compact_boundary', { content: 'Conversation compacted', compactMetadata: { trigger: 'auto', preTokens: 155_000 } }),
    ),
    [{ kind: 'event', name: 'compaction', text: '155K tokens' }],
  );
  assert.deepEqual(parseMessage(system('microcompact_boundary')), [{ kind: 'event', name: 'compaction', text: undefined }]);
  assert.deepEqual(parseMessage(system('away_summary', { content: 'Fixed two tests' })), [
    { kind: 'event', name: 'recap', text: 'Fixed two tests' },
  ]);
});

test('does not show records that are only for programs or for the model', () => {
  const data = (fields: object) => ({ role: 'agent', content: { type: 'output', data: fields } });
  const message = { role: 'user', content: 'Caveat: generated while running a local command.' };
  for (const fields of [
    { type: 'rate_limit_event' },
    { type: 'tool_progress' },
    { type: 'user', isMeta: true, message },
    { type: 'user', isCompactSummary: true, message },
  ]) {
    assert.deepEqual(parseMessage(data(fields)), [], JSON.stringify(fields));
  }
  assert.deepEqual(parseMessage(system('turn_duration', { durationMs: 1234 })), []);
});

test('a text with the reason of a failed turn becomes an error', () => {
  const failure = (content: unknown) => ({
    role: 'agent',
    content: { type: 'output', data: { type: 'assistant', isApiErrorMessage: true, message: { role: 'assistant', content } } },
  });
  for (const content of ['No credit.', [{ type: 'text', text: 'No credit.' }]])
    assert.deepEqual(parseMessage(failure(content)), [{ kind: 'error', text: 'No credit.' }]);
});

test('an event of type `error` becomes an error', () => {
  assert.deepEqual(parseMessage({ type: 'event', data: { type: 'error', message: 'The agent ended.' } }), [
    { kind: 'error', text: 'The agent ended.' },
  ]);
  assert.deepEqual(parseMessage({ type: 'event', data: { type: 'error' } }), [{ kind: 'event', name: 'error', text: undefined }]);
});

test('parses images of agents and tools as data URLs', () => {
  const png = 'data:image/png;base64,AAAA';
  const sourced = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };
  const inline = { type: 'image', data: 'AAAA', mimeType: 'image/png' };
  assert.deepEqual(parseMessage(output(sourced)), [{ kind: 'image', url: png }]);
  const content = [sourced, { type: 'text', text: 'two images' }, inline];
  assert.deepEqual(parseMessage(output({ type: 'tool_result', tool_use_id: 't', content })), [
    { kind: 'result', id: 't', text: 'two images', images: [png, png], isError: false },
  ]);
  for (const invalid of [
    { type: 'image' },
    { type: 'image', data: 'AAAA', mimeType: 'text/html' },
    { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
  ]) {
    assert.deepEqual(parseMessage(output(invalid)), [{ kind: 'unknown', json: invalid }]);
  }
});

test('parses a prompt that was typed at the terminal as a user message', () => {
  const content = { role: 'agent', content: { type: 'output', data: { type: 'user', message: { role: 'user', content: 'fix it' } } } };
  assert.deepEqual(parseMessage(content), [{ kind: 'user', text: 'fix it', attachments: [], from: 'cli' }]);
});

test('keeps unknown content unchanged', () => {
  for (const content of [
    null,
    7,
    [],
    {},
    { a: 1 },
    { role: 'user' },
    { role: 'user', content: { type: 'image' } },
    { role: 'agent', content: null },
    { role: 'agent', content: { type: 'output', data: { type: 'system' } } },
    system('unheard_of'),
  ]) {
    const parts = parseMessage(content);
    if (Array.isArray(content)) assert.deepEqual(parts, []);
    else assert.deepEqual(parts, [{ kind: 'unknown', json: content }], JSON.stringify(content));
  }
  const block = { type: 'tool_use', name: 7 };
  assert.deepEqual(parseMessage(output({ type: 'text', text: 'a' }, block)), [
    { kind: 'text', text: 'a' },
    { kind: 'unknown', json: block },
  ]);
});

test('drops todos without a text and fills in missing fields', () => {
  assert.deepEqual(
    parseTodos([{ content: 'a' }, { content: 7 }, null, { id: 'x', content: 'b', status: 'in_progress', priority: 'low' }]),
    [
      { id: '0', content: 'a', status: 'pending', priority: 'medium' },
      { id: 'x', content: 'b', status: 'in_progress', priority: 'low' },
    ],
  );
  assert.deepEqual(parseTodos('nonsense'), []);
});

test('converts any tool output to text', () => {
  assert.deepEqual([outputText('a'), outputText(null), outputText(undefined), outputText({ a: 1 })], ['a', '', '', '{\n  "a": 1\n}']);
});
