// Commands and skills for the composer.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readCommands } from '../src/content/completions.ts';
import { pluck } from './support/pluck.ts';

test('commands are names or objects, with or without a slash', () => {
  const list = [
    'compact',
    '/clear',
    { name: 'review', description: 'Reviews changes', source: 'builtin' },
    { name: '/plan' },
    { name: 'undo', description: 5 },
  ];
  assert.deepEqual(readCommands(list, ''), [
    { name: 'compact', description: '' },
    { name: 'clear', description: '' },
    { name: 'review', description: 'Reviews changes' },
    { name: 'plan', description: '' },
    { name: 'undo', description: '' },
  ]);
  assert.deepEqual(pluck(readCommands(['lint', { name: 'docs', description: '' }], 'Skill'), 'description'), ['Skill', 'Skill']);
});

test('leaves out all other values', () => {
  for (const list of [undefined, null, {}, 'compact', [null, 5, '', '/', {}, { name: 7 }, []]])
    assert.deepEqual(readCommands(list, ''), []);
});
