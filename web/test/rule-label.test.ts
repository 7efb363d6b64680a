// The labels of rules.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { splitRuleLabel } from '../src/content/rule-label.ts';

const split = (label: string, kind = 'command') => splitRuleLabel({ kind, label }).map(({ text, isCode }) => (isCode ? [text] : text));

test('the words of commands in a label are set off', () => {
  assert.deepEqual(split('`git diff` with any revision or path'), [['git diff'], ' with any revision or path']);
  assert.deepEqual(split('`ls` with any path and `npm test`'), [['ls'], ' with any path and ', ['npm test']]);
  assert.deepEqual(split('exactly `npm install zod`'), ['exactly ', ['npm install zod']]);
});

test('no character of a command is lost, also if the command contains backticks', () => {
  assert.deepEqual(split('exactly `echo `id` `x`'), ['exactly ', ['echo `id` `x']]);
  assert.deepEqual(split('a ` b'), ['a ` b']);
});

test('a label without backticks is a command in earlier versions, and a text for other rules', () => {
  assert.deepEqual(split('git commit …'), [['git commit …']]);
  assert.deepEqual(split('edits in shop', 'edit'), ['edits in shop']);
  assert.deepEqual(split('a`b`c', 'tool'), ['a`b`c']);
});
