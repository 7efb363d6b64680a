// What the hub is told of who looks at the page.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { HubError, unreachable } from '../src/api/errors.ts';
import { Presence, type Visibility } from '../src/api/presence.ts';

/** Lets promises that are settled be noticed. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Lets time pass. */
async function pass(ms: number) {
  mock.timers.tick(ms);
  await settle();
}

function place() {
  const world = { isVisible: true, answer: async () => {} };
  const told: [string, Visibility][] = [];
  const tell = (id: string, visibility: Visibility) => {
    told.push([id, visibility]);
    return world.answer();
  };
  return { presence: new Presence({ isVisible: () => world.isVisible, tell }), world, told };
}

beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
afterEach(() => mock.timers.reset());

test('a subscription says it at its beginning, and again only what has changed since', async () => {
  const { presence, world, told } = place();
  assert.equal(presence.atBeginning(), 'visible');
  presence.changed();
  presence.connected('s1');
  assert.deepEqual(told, []);
  assert.equal(presence.atBeginning(), 'visible');
  world.isVisible = false;
  presence.connected('s2');
  assert.deepEqual(told, [['s2', 'hidden']]);
  presence.stop();
});

test('who looks says so once a minute, and who does not says it once', async () => {
  const { presence, world, told } = place();
  presence.atBeginning();
  presence.connected('s');
  for (const _ of [1, 2]) await pass(60_000);
  world.isVisible = false;
  presence.changed();
  await settle();
  await pass(600_000);
  assert.deepEqual(told.map(([, visibility]) => visibility), ['visible', 'visible', 'hidden']);
  world.isVisible = true;
  presence.changed();
  await settle();
  assert.equal(told.length, 4);
  presence.stop();
  await pass(600_000);
  assert.equal(told.length, 4);
});

test('what the hub did not hear is said again until it does', async () => {
  const { presence, world, told } = place();
  presence.atBeginning();
  presence.connected('s');
  world.isVisible = false;
  world.answer = async () => Promise.reject(unreachable());
  presence.changed();
  await settle();
  await pass(1000);
  await pass(1999);
  assert.equal(told.length, 2);
  world.answer = async () => {};
  await pass(1);
  await pass(600_000);
  assert.deepEqual(told, Array(3).fill(['s', 'hidden']));
});

test('a subscription that is gone is told nothing more, and its successor is', async () => {
  const { presence, world, told } = place();
  presence.atBeginning();
  presence.connected('s1');
  world.answer = async () => Promise.reject(new HubError(404, 'subscription_not_found', 'There is no such subscription.'));
  await pass(60_000);
  await pass(600_000);
  assert.equal(told.length, 1);
  world.answer = async () => {};
  presence.atBeginning();
  presence.connected('s2');
  await pass(60_000);
  assert.deepEqual(told.at(-1), ['s2', 'visible']);
  presence.stop();
});

test('of two words that overlap the later one counts', async () => {
  const { presence, world, told } = place();
  presence.atBeginning();
  presence.connected('s');
  let fail = () => {};
  world.answer = () => new Promise((_, reject) => (fail = () => reject(unreachable())));
  world.isVisible = false;
  presence.changed();
  world.answer = async () => {};
  world.isVisible = true;
  presence.changed();
  fail();
  await settle();
  await pass(1000);
  assert.deepEqual(told.map(([, visibility]) => visibility), ['hidden', 'visible']);
  presence.stop();
});
