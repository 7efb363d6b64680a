// Texts for errors of the hub.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { responseError } from '../src/api/errors.ts';

test('a call that no CLI serves is described without the name of a method', () => {
  const textOf = (error: string) => responseError(503, { error, code: 'cli_unreachable' }).message;
  const notReady = "The agent's CLI is not connected, or not ready yet. Try again in a few seconds.";
  assert.equal(textOf('The CLI is not reachable: No handler registered for permission. Check that it is running.'), notReady);
  assert.equal(textOf('The CLI is not reachable: No handler registered for abort. Check that it is running.'), notReady);
  const hint =
    'The CLI registered allow: if one of these is the same method, map it in the setting VOCABULARY of the hub (docs/CLIENTS.md).';
  assert.equal(textOf(`No handler registered for permission. ${hint}`), notReady);
  // The hint for the operator names the method.
  assert.equal(textOf(`No handler registered for spawnSession. ${hint}`), `No handler registered for spawnSession. ${hint}`);
  assert.equal(textOf('The CLI disconnected before it answered permission.'), 'The CLI disconnected before it answered permission.');
});
