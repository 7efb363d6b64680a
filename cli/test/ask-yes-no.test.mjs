/** Questions that are answered by yes or no. */

import assert from 'node:assert/strict';
import { createInterface } from 'node:readline/promises';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { askYesNo } from '../src/ask-yes-no.mjs';

function openTerminal() {
  const input = new PassThrough();
  return { input, terminal: createInterface({ input, output: new PassThrough() }) };
}

test('only y and yes are a yes', async () => {
  const { input, terminal } = openTerminal();
  const answers = [];
  for (const text of ['y', ' YES ', '', 'n', 'yesterday']) {
    const answer = askYesNo(terminal, 'Go on?');
    input.write(`${text}\n`);
    answers.push(await answer);
  }
  assert.deepEqual(answers, [true, true, false, false, false]);
  terminal.close();
});

test('the end of the input is a no, also for later questions', async () => {
  const { input, terminal } = openTerminal();
  const answer = askYesNo(terminal, 'Go on?');
  input.end();
  assert.equal(await answer, false);
  assert.equal(await askYesNo(terminal, 'And now?'), false);
});
