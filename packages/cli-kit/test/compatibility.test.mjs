/** A hub of another version of the protocol. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeMismatch, PROTOCOL_VERSION } from '../src/compatibility.mjs';

test('the user is told whether the program or the hub is older', () => {
  assert.equal(describeMismatch(PROTOCOL_VERSION), undefined);
  assert.equal(describeMismatch(undefined), undefined, 'a server that does not report it');
  assert.match(describeMismatch(PROTOCOL_VERSION + 1), /^The hub is newer than this program: .* update this program\.$/);
  assert.match(describeMismatch(PROTOCOL_VERSION - 1), /^The hub is older than this program: .* update the hub\.$/);
});
