// Errors of a session start, assigned to form fields.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { responseError } from '../src/api/errors.ts';
import { describeStartError } from '../src/content/start-error.ts';

test('uses the field that the error names, and replaces API names by form names', () => {
  assert.deepEqual(describeStartError(new Error('"worktreeName" becomes a branch and a folder: 1 to 64 letters.'), true), {
    field: 'worktree',
    text: 'The worktree name becomes a branch and a folder: 1 to 64 letters.',
  });
  assert.deepEqual(describeStartError(new Error('"branch": the repository /code has no branch next.'), true), {
    field: 'branch',
    text: 'The branch: the repository /code has no branch next.',
  });
  assert.deepEqual(
    describeStartError(
      responseError(400, { error: 'Field `directory` must not be empty.', code: 'invalid_field', field: 'directory' }),
      false,
    ),
    { field: 'directory', text: 'The directory must not be empty.' },
  );
  assert.deepEqual(describeStartError(responseError(400, { error: 'Not this one.', code: 'invalid_field', field: 'agent' }), false), {
    field: 'agent',
    text: 'Not this one.',
  });
});

test('guesses the field from the text of the error, or assigns no field', () => {
  assert.deepEqual(describeStartError(new Error('There is a branch main already.'), true), {
    field: 'worktree',
    text: 'There is a branch main already.',
  });
  assert.equal(describeStartError(new Error('No such directory: /x'), true).field, 'directory');
  // The form does not show the worktree field.
  assert.equal(describeStartError(new Error('The branch is checked out elsewhere.'), false).field, undefined);
  assert.equal(
    describeStartError(responseError(503, { error: 'The machine is not there.', code: 'rpc_unavailable', field: 'id' }), false).field,
    undefined,
  );
});
