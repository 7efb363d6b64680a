// Waiting for locks.

import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { existsSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { withLock } from '../lib/lock.mjs';

test('a lock has one holder at a time and is released', async (t) => {
  const file = path.join(tempDir(t), 'lock');
  const order = [];
  const gate = new EventEmitter();
  const first = withLock(file, 'work', async () => {
    order.push('first in');
    await once(gate, 'open');
    order.push('first out');
  });
  const second = withLock(file, 'work', async () => order.push('second in'));
  gate.emit('open');
  await Promise.all([first, second]);
  assert.deepEqual(order, ['first in', 'first out', 'second in']);
  assert.equal(existsSync(file), false);
});

test('a lock is released when the work fails', async (t) => {
  const file = path.join(tempDir(t), 'lock');
  await assert.rejects(
    withLock(file, 'work', async () => Promise.reject(new Error('broken'))),
    /broken/,
  );
  assert.equal(await withLock(file, 'work', async () => 'done'), 'done');
});
