// The content of a prompt.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toPrompt } from '../src/prompt.mjs';

test('a message of white space alone is no prompt: models refuse it', async () => {
  const options = { uploads: '/none', canTakeImages: false };
  assert.deepEqual((await toPrompt({ text: ' \n\t' }, options)).blocks, []);
  assert.deepEqual((await toPrompt({ text: ' go ' }, options)).blocks, [{ type: 'text', text: ' go ' }]);
});
