import assert from 'node:assert/strict';
import { test } from 'node:test';
import { once } from '../src/content/once.ts';

test('a value is created at the first call, and only once', () => {
  let calls = 0;
  const create = once(() => {
    calls += 1;
    return undefined;
  });
  assert.equal(calls, 0);
  create();
  create();
  assert.equal(calls, 1);
});
