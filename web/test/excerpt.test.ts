// Parsing the start and the end of large messages.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseExcerpt } from '../src/content/excerpt.ts';
import { buildTimeline } from '../src/content/timeline.ts';
import type { ToolItem } from '../src/content/timeline-item.ts';
import type { Message } from '../src/api/types.ts';

const EXCERPT_CHARS = 4000;

const agentMessage = (type: string, ...content: unknown[]) => ({
  role: 'agent',
  content: { type: 'output', data: { type, message: { role: type, content } } },
});
const result = (content: unknown, more = {}) => agentMessage('user', { type: 'tool_result', tool_use_id: 'c', content, ...more });
const LOG = `first line\n${'a line of the log\n'.repeat(100_000)}error: the test failed\n`;

/** Returns the excerpt that the hub sends for a content. */
function excerptOf(content: unknown): { excerpt: [string, string]; contentBytes: number } {
  const json = JSON.stringify(content);
  const characters = [...json];
  const excerpt: [string, string] = [characters.slice(0, EXCERPT_CHARS).join(''), characters.slice(-EXCERPT_CHARS).join('')];
  return { excerpt, contentBytes: new TextEncoder().encode(json).length };
}

function parse(content: unknown) {
  const { excerpt, contentBytes } = excerptOf(content);
  return parseExcerpt(excerpt, contentBytes);
}

test('an excerpt of an output has whole lines of the start and the end, and the size of the gap', () => {
  const [part, ...others] = parse(result(LOG, { is_error: true }));
  assert.ok(part?.kind === 'result' && others.length === 0);
  assert.deepEqual([part.id, part.isError, part.images], ['c', true, []]);
  assert.ok(/^first line\n(a line of the log\n)+\[1\.8 MiB left out\]\n(a line of the log\n)+error: the test failed\n$/.test(part.text));
});

test('the start and the end of each kind of text are joined, wherever the text is cut', () => {
  for (const text of ['\\n\\"', '"\\', '\u{1f980}', '\u0001', '\ud83e', 'x', '\n', '\\u0041']) {
    for (let length = 0; length < 8; length += 1) {
      const long = `${'-'.repeat(length)}${text.repeat(40_000)}${'-'.repeat(length)}end`;
      const contents = [
        result(long),
        result([{ type: 'text', text: long }]),
        agentMessage('assistant', { type: 'text', text: 'short' }, { type: 'text', text: long }),
        { role: 'user', content: { type: 'text', text: long, attachments: [] } },
      ];
      for (const content of contents) {
        const part = parse(content).at(-1);
        assert.ok(part && 'text' in part && part.text);
        const [start = '', end = ''] = part.text.split(/\n\[[\d.]+ KiB left out\]\n/);
        assert.ok(long.startsWith(start.replace(/\ud83e$/, '')), `${JSON.stringify(text)}: ${start.slice(-20)}`);
        assert.ok(end.endsWith('end') && long.includes(end.slice(6)), `${JSON.stringify(text)}: ${end.slice(0, 20)}`);
      }
    }
  }
});

test('only the start of a call’s input is shown, because the end may belong to another field', () => {
  const input = { file_path: '/a', old_string: 'x\n'.repeat(50_000), new_string: 'y\n'.repeat(50_000) };
  const [part] = parse(agentMessage('assistant', { type: 'tool_use', id: 'c', name: 'Edit', input }));
  assert.ok(part?.kind === 'tool' && part.name === 'Edit');
  const { file_path, old_string, ...otherFields } = part.input as Record<string, string>;
  assert.deepEqual([file_path, otherFields], ['/a', {}]);
  assert.match(old_string ?? '', /^(x\n)+\[\d+\.\d KiB left out\]\n$/);
});

test('a message whose start has nothing that can be shown is shown as a large message, and so is an image', () => {
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'QUJD'.repeat(100_000) } };
  const contents = [{ data: 'x'.repeat(100_000) }, Array.from({ length: 50_000 }, (_, index) => index)];
  for (const content of contents) assert.deepEqual(parse(content), [{ kind: 'large' }]);
  // `isImage`: the console loads the message when it comes into view.
  assert.deepEqual(parse(agentMessage('assistant', { type: 'text', text: 'Look:' }, image)), [
    { kind: 'text', text: 'Look:' },
    { kind: 'large', isImage: true },
  ]);
  assert.deepEqual(parse(result([{ type: 'text', text: 'Look:' }, image])), [
    { kind: 'result', id: 'c', text: 'Look:', images: [], isError: false, isImage: true },
  ]);
});

test('the item of a tool call names the messages of the call that are only excerpts', () => {
  const message = (seq: number, content: unknown): Message => ({ id: `m${seq}`, seq, localId: null, createdAt: seq, content });
  const excerpt = (seq: number, content: unknown): Message => ({
    id: `m${seq}`,
    seq,
    localId: null,
    createdAt: seq,
    ...excerptOf(content),
  });
  const messages = [
    message(1, agentMessage('assistant', { type: 'tool_use', id: 'c', name: 'Bash', input: { command: 'make' } })),
    excerpt(2, result(LOG)),
    message(3, result('a short piece\n')),
    excerpt(4, result(LOG)),
    excerpt(5, agentMessage('assistant', { type: 'text', text: LOG })),
  ];
  const cutOf = (seq: number, content: unknown) => ({ seq, bytes: JSON.stringify(content).length, isImage: false });
  const [tool, text] = buildTimeline({ messages, outgoing: [], hasOlder: false }, { active: true, thinking: false });
  assert.deepEqual(tool?.cut, [cutOf(2, result(LOG)), cutOf(4, result(LOG))]);
  assert.match((tool as ToolItem).output, /left out\][^]*failed\na short piece\n[^]*left out\]/);
  assert.deepEqual(text?.cut, [cutOf(5, agentMessage('assistant', { type: 'text', text: LOG }))]);
});

test('the item of a text of several messages names the messages that are only excerpts', () => {
  const content = (text: string, nextId?: string) =>
    agentMessage('assistant', { type: 'text', text, ...(nextId && { continuedBy: { localId: nextId, end: '', start: '' } }) });
  const part = (seq: number, body: object): Message => ({ id: `m${seq}`, seq, localId: `p${seq}`, createdAt: seq, ...body });
  const messages = [part(1, { content: content('one', 'p2') }), part(2, excerptOf(content(LOG, 'p3'))), part(3, excerptOf(content(LOG)))];
  const items = buildTimeline({ messages, outgoing: [], hasOlder: false }, { active: true, thinking: false });
  assert.equal(items.length, 1);
  assert.deepEqual(
    items[0]?.cut?.map(({ seq }) => seq),
    [2, 3],
  );
});
