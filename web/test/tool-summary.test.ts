// Summaries and previews of tool calls, and command completions.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { matchCommands } from '../src/content/completions.ts';
import { previewOutput, summarizeInput } from '../src/content/tool-summary.ts';

test('summarizes a call by its most descriptive field, in one line', () => {
  assert.equal(summarizeInput({ description: 'List', command: 'ls' }), 'ls');
  assert.equal(summarizeInput({ command: ['git', 'status'] }), 'git status');
  assert.equal(summarizeInput({ command: 'a\nb' }), 'a …');
  assert.equal(summarizeInput({ count: 3, note: 'x' }), 'x');
  assert.equal(summarizeInput({ changes: [{ file_path: 'a' }, { file_path: 'b' }, { file_path: 'a' }] }), 'a, b');
  assert.equal(summarizeInput({ changes: [null], note: 'x' }), 'x');
  assert.equal(summarizeInput('words'), 'words');
  assert.equal(summarizeInput(null), '');
});

test('previews the start of an output and counts the rest', () => {
  const lines = (count: number) => Array.from({ length: count }, (_, at) => `${at + 1}`).join('\n');
  assert.deepEqual(previewOutput('', 0), { text: '', more: '' });
  assert.deepEqual(previewOutput(`${lines(6)}\n\n`, 0), { text: lines(6), more: '' });
  assert.deepEqual(previewOutput(lines(7), 0), { text: lines(6), more: '1 more line' });
  assert.deepEqual(previewOutput(lines(46), 2), { text: lines(6), more: '40 more lines, 2 images' });
  assert.deepEqual(previewOutput('x'.repeat(1000), 0), { text: 'x'.repeat(600), more: '400 more characters' });
  assert.deepEqual(previewOutput('\u001b[31mred\u001b[0m\n', 1), { text: 'red', more: '1 image' });
});

test('completes commands only while their name is typed', () => {
  const commands = ['todo', 'help', 'undo-all'].map((name) => ({ name, description: '' }));
  const names = (text: string) => matchCommands(commands, text).map(({ name }) => name);
  assert.deepEqual(names('/'), ['todo', 'help', 'undo-all']);
  assert.deepEqual(names('/DO'), ['todo', 'undo-all']);
  assert.deepEqual(names('/undo'), ['undo-all']);
  for (const text of ['', 'todo', '/todo ', 'a /todo', '/x']) assert.deepEqual(names(text), []);
});
