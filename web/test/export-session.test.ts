// The text of a message for the search and for the export.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../src/api/types.ts';
import { exportFileName, writeMarkdown } from '../src/content/export-session.ts';
import { containsText } from '../src/content/search-text.ts';

const message = (content: unknown): Message => ({ id: 'm', seq: 1, localId: null, content, createdAt: Date.UTC(2026, 4, 3, 9, 5) });
const block = (content: object) =>
  message({ role: 'agent', content: { type: 'output', data: { type: 'assistant', message: { content: [content] } } } });
const userMessage = message({
  role: 'user',
  content: {
    type: 'text',
    text: 'Fix it',
    attachments: [{ id: '1', filename: 'log.txt', mimeType: 'text/plain', size: 2048, path: '/tmp/log.txt' }],
  },
});
const call = block({ type: 'tool_use', id: 'a', name: 'Bash', input: { command: 'echo "one\ntwo"' } });
const result = (text: string, is_error = false) => block({ type: 'tool_result', tool_use_id: 'a', content: text, is_error });

test('finds text in messages of the user, names of files, calls and outputs, without regard to case', () => {
  assert.ok(containsText(userMessage, 'fix IT'));
  assert.ok(containsText(userMessage, 'LOG.txt'));
  // The JSON of the command has an escape sequence in place of the line break.
  assert.ok(containsText(call, '"one\ntwo"'));
  assert.ok(containsText(result('The Output'), 'output'));
  assert.ok(!containsText(result('The Output'), 'input'));
  assert.ok(containsText(message({ strange: ['deep value'] }), 'deep value'));
});

test('does not find the fields of records that are not shown', () => {
  assert.ok(!containsText(block({ type: 'text', text: 'x' }), 'assistant'));
  assert.ok(!containsText(message({ role: 'agent', content: { type: 'event', data: { type: 'ready' } } }), 'ready'));
});

test('searches the loaded parts of a large message', () => {
  const json = JSON.stringify({ role: 'agent', content: { type: 'text', text: `start\n${'x'.repeat(500)}\nend` } });
  const cut = { id: 'm', seq: 1, localId: null, createdAt: 0, contentBytes: 100_000, excerpt: [json.slice(0, 80), json.slice(-80)] };
  assert.ok(containsText(cut as Message, 'start') && containsText(cut as Message, 'end'));
});

test('writes a message of the user with its time and files, a call with its input, and an output in a fence', () => {
  assert.equal(writeMarkdown(userMessage), '## You · 2026-05-03 09:05 UTC\n\nFix it\n\n- `log.txt` (2.0 KiB)\n\n');
  assert.match(writeMarkdown(call), /^\*\*Run command\*\* `echo "one …`\n\n```json\n/);
  assert.equal(writeMarkdown(result('done\n')), '```\ndone\n```\n\n');
  assert.equal(writeMarkdown(message({ role: 'agent', content: { type: 'event', data: { type: 'ready' } } })), '');
});

test('an output with a fence or terminal colours cannot break the document', () => {
  assert.equal(
    writeMarkdown(result('\u001b[31mred\u001b[0m\n```\n# not a heading\n````', true)),
    '*Failed:*\n\n`````\nred\n```\n# not a heading\n````\n`````\n\n',
  );
});

test('names the file by title and date, without characters that file systems reject', () => {
  const date = new Date(2026, 4, 3);
  assert.equal(exportFileName('Fix: a/b\\c "d"?', date, 'md'), 'Fix-a-b-c-d-2026-05-03.md');
  assert.equal(exportFileName('日本語 のテスト', date, 'json'), '日本語-のテスト-2026-05-03.json');
  assert.equal(exportFileName('../..', date, 'md'), 'session-2026-05-03.md');
  assert.equal(exportFileName('x'.repeat(300), date, 'md'), `${'x'.repeat(60)}-2026-05-03.md`);
});
