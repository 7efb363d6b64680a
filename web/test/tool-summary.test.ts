// Summaries and previews of tool calls, and command completions.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { matchCommands } from '../src/content/completions.ts';
import { cutText } from '../src/content/cut-text.ts';
import { summarizeEdits } from '../src/content/edit-summary.ts';
import { previewOutput } from '../src/content/output-preview.ts';
import { summarizeInput, summaryPath, toolTitle } from '../src/content/tool-summary.ts';
import { displayPath } from '../src/content/paths.ts';

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

test('a command has the same title in the shells of all agents', () => {
  for (const name of ['Bash', 'bash', 'run_shell_command', 'exec_command', 'shell_command', 'Shell', 'Terminal'])
    assert.equal(toolTitle(name, { command: 'ls' }), 'Run command');
  assert.equal(toolTitle('shell', { command: ['ls', '-l'] }), 'Run command');
  assert.equal(toolTitle('Bash', { input: 'ls' }), 'Bash');
  for (const other of ['deploy', 'mcp__bank__executeTransfer', 'mcp__ops__bash', 'bank-shell', 'commands'])
    assert.equal(toolTitle(other, { command: 'up' }), other);
  for (const input of [null, undefined, 'ls']) assert.equal(toolTitle('Bash', input), 'Bash');
});

test('a call that asks questions is summarized by its first question', () => {
  const questions = [{ question: 'Which database?\nThe old one?', header: 'Database', options: [{ label: 'SQLite' }] }];
  assert.equal(toolTitle('AskUserQuestion', { questions }), 'Question');
  assert.equal(toolTitle('question', { questions: [...questions, { question: 'Which port?' }] }), '2 questions');
  assert.equal(summarizeInput({ questions }), 'Which database? …');
  assert.equal(summarizeInput({ questions, answers: { a: ['b'] } }), 'Which database? …', 'an agent may add the answers');
  assert.equal(toolTitle('Ask', { questions, command: 'ls' }), 'Ask', 'the call also does something else');
  assert.equal(summarizeInput({ questions, command: 'ls' }), 'ls');
  for (const other of [[], [null], ['Which?'], [{ question: 7 }]]) assert.doesNotThrow(() => summarizeInput({ questions: other }));
});

test('the summary of a call for one file is its path', () => {
  assert.equal(summaryPath({ file_path: '/code/a.ts', old_string: 'x', new_string: 'y' }), '/code/a.ts');
  assert.equal(summaryPath({ changes: [{ file_path: 'a' }, { file_path: 'a' }] }), 'a');
  for (const other of [{ changes: [{ file_path: 'a' }, { file_path: 'b' }] }, { command: 'ls', path: '/code' }, { path: '' }, 'a', null])
    assert.equal(summaryPath(other), undefined);
});

test('a path inside the session directory is relative to it', () => {
  const session = { path: '/home/ada/code', homeDir: '/home/ada' };
  assert.equal(displayPath('/home/ada/code/src/a.ts', session), 'src/a.ts');
  assert.equal(displayPath('/home/ada/code/a.ts', { path: '/home/ada/code/' }), 'a.ts');
  assert.equal(displayPath('C:\\code\\src\\a.ts', { path: 'C:\\code' }), 'src\\a.ts');
  assert.equal(displayPath('/home/ada/codes/a.ts', session), '~/codes/a.ts');
  assert.equal(displayPath('/etc/hosts', session), '/etc/hosts');
  assert.equal(displayPath('src/a.ts', session), 'src/a.ts');
  assert.equal(displayPath('/home/ada/code', session), '~/code');
  for (const none of [undefined, null, {}]) assert.equal(displayPath('/etc/hosts', none), '/etc/hosts');
});

test('only the home directory of the session is abbreviated', () => {
  const session = { path: '/home/alice/code', homeDir: '/home/alice' };
  assert.equal(displayPath('/home/alice/.bashrc', session), '~/.bashrc');
  assert.equal(displayPath('/home/bob/.bashrc', session), '/home/bob/.bashrc');
  for (const homeDir of [undefined, '']) assert.equal(displayPath('/home/alice/.bashrc', { ...session, homeDir }), '/home/alice/.bashrc');
});

test('summarizes edits by their changed lines', () => {
  const replace = (path: string, old_string: string, new_string: string) => ({ file_path: path, old_string, new_string });
  const edit = replace('a', 'one\ntwo\nthree', 'one\n2\nthree');
  assert.deepEqual(summarizeEdits(edit), {
    added: 1,
    removed: 1,
    lines: [
      { kind: 'removed', text: 'two' },
      { kind: 'added', text: '2' },
    ],
    moreLines: 0,
  });
  const appended = summarizeEdits(replace('a', 'one', 'one\ntwo'));
  assert.deepEqual([appended?.added, appended?.removed], [1, 0], 'the last line of a text is the same line when another follows');
  const created = summarizeEdits({ path: 'b', content: '1\n2\n3\n4\n5\n6\n7\n8\n' });
  assert.deepEqual([created?.added, created?.removed, created?.lines.length, created?.moreLines], [8, 0, 6, 2]);
  assert.deepEqual(
    summarizeEdits({ changes: [edit, { ...edit, file_path: 'b' }] })?.lines.map(({ text }) => text),
    ['a', 'two', '2', 'b', 'two', '2'],
  );
  assert.equal(summarizeEdits({ path: 'a', content: 'x'.repeat(9999) })?.lines[0]?.text.length, 301);
  assert.deepEqual(summarizeEdits(replace('a', 'x', 'x'))?.lines, []);
  for (const none of [{ command: 'ls' }, 'ls', null, undefined]) assert.equal(summarizeEdits(none), undefined);
});

test('compares the edits of a call once, with one limit for all edits', () => {
  const lines = (count: number, word: string) => Array.from({ length: count }, (_, at) => `${word} ${at}\n`).join('');
  const edit = (count: number) => ({ old_string: `first\n${lines(count, 'old')}`, new_string: `first\n${lines(count, 'new')}` });
  const countsOf = (...counts: number[]) => {
    const input = { file_path: 'a', edits: counts.map(edit) };
    const summary = summarizeEdits(input);
    assert.equal(summarizeEdits(input), summary);
    return [summary?.added, summary?.removed];
  };
  assert.deepEqual(countsOf(200), [200, 200]);
  assert.deepEqual(countsOf(900), [901, 901], 'all lines of both texts');
  assert.deepEqual(countsOf(150, 150, 1), [303, 303], 'the first edit leaves 100 lines to compare');
});

test('a long text is cut between characters', () => {
  assert.equal(cutText('abc', 3), 'abc');
  assert.equal(cutText('abcd', 3), 'abc…');
  assert.equal(cutText('ab😀d', 3), 'ab…');
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
