// What tools are about, completions.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { completions } from '../src/content/completions.ts';
import { previewOf, summarize } from '../src/content/tools.ts';

test('a call is summed up by the field that says most, in one line', () => {
  assert.equal(summarize({ description: 'List', command: 'ls' }), 'ls');
  assert.equal(summarize({ command: ['git', 'status'] }), 'git status');
  assert.equal(summarize({ command: 'a\nb' }), 'a …');
  assert.equal(summarize({ count: 3, note: 'x' }), 'x');
  assert.equal(summarize('words'), 'words');
  assert.equal(summarize(null), '');
});

test('of an output the beginning is shown, with what else there is', () => {
  const lines = (count: number) => Array.from({ length: count }, (_, at) => `${at + 1}`).join('\n');
  assert.deepEqual(previewOf('', 0), { text: '', more: '' });
  assert.deepEqual(previewOf(`${lines(6)}\n\n`, 0), { text: lines(6), more: '' });
  assert.deepEqual(previewOf(lines(7), 0), { text: lines(6), more: '1 more line' });
  assert.deepEqual(previewOf(lines(46), 2), { text: lines(6), more: '40 more lines, 2 pictures' });
  assert.deepEqual(previewOf('x'.repeat(1000), 0), { text: 'x'.repeat(600), more: '400 more characters' });
  assert.deepEqual(previewOf('\u001b[31mred\u001b[0m\n', 1), { text: 'red', more: '1 picture' });
});

test('commands are completed as long as only their name is being written', () => {
  const commands = ['todo', 'help', 'undo-all'].map((name) => ({ name, description: '' }));
  const names = (text: string) => completions(commands, text).map(({ name }) => name);
  assert.deepEqual(names('/'), ['todo', 'help', 'undo-all']);
  assert.deepEqual(names('/DO'), ['todo', 'undo-all']);
  assert.deepEqual(names('/undo'), ['undo-all']);
  for (const text of ['', 'todo', '/todo ', 'a /todo', '/x']) assert.deepEqual(names(text), []);
});
