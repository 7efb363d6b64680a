// Why a session was not started, at the field that it is about.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refusal } from '../src/api/errors.ts';
import { startProblem } from '../src/content/start-problem.ts';

test('what names a field of the interface is said at that field, and speaks of it as a person does', () => {
  assert.deepEqual(startProblem(new Error('"worktreeName" becomes a branch and a folder: 1 to 64 letters.'), true), { field: 'worktree', text: 'The name becomes a branch and a folder: 1 to 64 letters.' });
  assert.deepEqual(startProblem(refusal(400, { error: 'Field `directory` must not be empty.', code: 'invalid_field', field: 'directory' }), false), { field: 'directory', text: 'The directory must not be empty.' });
  assert.deepEqual(startProblem(refusal(400, { error: 'Not this one.', code: 'invalid_field', field: 'agent' }), false), { field: 'agent', text: 'Not this one.' });
});

test('what names none is said at the field that it speaks of, and otherwise of the whole', () => {
  assert.deepEqual(startProblem(new Error('There is a branch main already.'), true), { field: 'worktree', text: 'There is a branch main already.' });
  assert.equal(startProblem(new Error('No such directory: /x'), true).field, 'directory');
  // Without that field in the form there is no place for it.
  assert.equal(startProblem(new Error('The branch is checked out elsewhere.'), false).field, undefined);
  assert.equal(startProblem(refusal(503, { error: 'The machine is not there.', code: 'rpc_unavailable', field: 'id' }), false).field, undefined);
});
