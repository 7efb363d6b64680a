import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decideByMode, isReadOnlyCommand } from '../src/modes.mjs';

const describe = (/** @type {import('../src/modes.mjs').ModeDecision} */ { approvedBy, isForbidden }) =>
  approvedBy?.label ?? (isForbidden ? 'never' : 'ask');

test('the mode decides whether a command runs, needs the user or is refused', () => {
  assert.deepEqual(
    ['default', 'acceptEdits', 'ask', 'bypassPermissions', 'yolo', 'plan', 'read-only'].map((mode) =>
      describe(decideByMode(mode, 'ls', true)),
    ),
    ['ask', 'ask', 'ask', 'Approve everything', 'Approve everything', 'never', 'never'],
  );
  assert.equal(describe(decideByMode('safe-yolo', 'ls -la src', true)), 'commands that only read');
  assert.equal(describe(decideByMode('safe-yolo', 'rm -rf src', true)), 'ask');
  assert.equal(describe(decideByMode('safe-yolo', 'ls -la src', false)), 'ask');
});

test('only reading programs with paths inside the directory are read-only', () => {
  for (const command of ['ls', 'cat a.txt', 'head -n 3 src/a.rs', 'git status', 'echo hello'])
    assert.ok(isReadOnlyCommand(command), command);
  for (const command of [
    'ls; rm a',
    'cat /etc/passwd',
    'cat ../a',
    'echo a > b',
    'cat `x`',
    'git push',
    'git status --x',
    'ls\nrm a',
    '$(x)',
    'ls & x',
    'A=1 ls',
  ])
    assert.ok(!isReadOnlyCommand(command), command);
});
