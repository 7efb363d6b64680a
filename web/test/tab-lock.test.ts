// Leases: the locks between tabs if the browser has no Web Locks API.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { MemoryDatabase } from '../src/state/database.ts';
import { createLeases } from '../src/state/tab-lock.ts';
import { flushPromises } from './support/promises.ts';

/** Two tabs that share a database. */
function setup() {
  const database = Promise.resolve(new MemoryDatabase());
  return { first: createLeases(database), second: createLeases(database) };
}

const never = () => new Promise<void>(() => {});
const done = async () => {};

beforeEach(() => mock.timers.enable({ apis: ['setInterval', 'Date'] }));
afterEach(() => mock.timers.reset());

test('one tab holds a lease at a time', async () => {
  const { first, second } = setup();
  let finish = () => {};
  const holding = first('a', () => new Promise((resolve) => (finish = resolve)));
  await flushPromises();
  assert.deepEqual([await second('a', done), await second('b', done)], [false, true]);
  finish();
  assert.equal(await holding, true);
  assert.equal(await second('a', done), true);
});

test('a tab renews its lease as long as its operation runs', async () => {
  const { first, second } = setup();
  void first('a', never);
  for (let second = 0; second < 60; second += 1) {
    await flushPromises();
    mock.timers.tick(1000);
  }
  await flushPromises();
  assert.equal(await second('a', done), false);
});

test('the lease of a closed tab expires after ten seconds', async (t) => {
  const { first, second } = setup();
  t.mock.method(globalThis, 'setInterval', () => 0);
  void first('a', never);
  await flushPromises();
  mock.timers.tick(9_999);
  assert.equal(await second('a', done), false);
  mock.timers.tick(1);
  assert.equal(await second('a', done), true);
});

test('a lease does not become longer when the clock is set back', async (t) => {
  const { first, second } = setup();
  mock.timers.setTime(1_000_000);
  t.mock.method(globalThis, 'setInterval', () => 0);
  void first('a', never);
  await flushPromises();
  mock.timers.setTime(0);
  assert.equal(await second('a', done), true);
});
