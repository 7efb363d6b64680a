// Waiting for locks.

import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { withLock } from '../lib/lock.mjs';

/** @param {import('node:test').TestContext} t */
function temporaryFolder(t) {
  const folder = mkdtempSync(path.join(tmpdir(), 'hub-scripts-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

test('a lock has one holder at a time and is released', async (t) => {
  const file = path.join(temporaryFolder(t), 'lock');
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
  const file = path.join(temporaryFolder(t), 'lock');
  await assert.rejects(
    withLock(file, 'work', async () => Promise.reject(new Error('broken'))),
    /broken/,
  );
  assert.equal(await withLock(file, 'work', async () => 'done'), 'done');
});
