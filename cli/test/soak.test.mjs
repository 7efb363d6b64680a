/**
 * One process serves sessions for a long simulated time, in which people act and faults happen. The process must not grow, and must leave
 * no other process behind.
 * `npm run soak:agents` runs 24 hours with 20 sessions.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../packages/cli-kit/test/support/wait.mjs';
import { ACTIVITIES, FAULTS } from './soak/activities.mjs';
import { SimulatedClock } from './soak/clock.mjs';
import { measure } from './soak/measure.mjs';
import { World } from './soak/world.mjs';

const HOURS = Number(process.env.SOAK_HOURS ?? 5);
const SESSIONS = Number(process.env.SOAK_SESSIONS ?? 5);

const HOUR_MS = 3_600_000;

/** The time from one activity of a session to the next. */
const ROUND_MS = HOUR_MS;

/** The time of all activities and faults, which fills caches, and lists with a limit: half of a short run. */
const WARM_UP_MS = Math.min(HOURS / 2, 6) * HOUR_MS;

/**
 * Growth that is no leak: numbers have more digits, Node compiles more, and one wait more or less is under way. A promise that a session
 * leaks in each round would be more.
 */
const TOLERANCES = {
  'KB of the heap': 1500,
  'bytes of the state': 60 * SESSIONS,
  'bytes of the metadata': 20 * SESSIONS,
  'objects of Promise': SESSIONS - 1,
};

test(`${SESSIONS} sessions in one process do not grow in ${HOURS} simulated hours`, { timeout: 4 * HOUR_MS }, async (t) => {
  const clock = new SimulatedClock();
  clock.install();
  t.after(() => clock.uninstall());
  const world = await clock.follow(World.start(t, { clock, sessions: SESSIONS }));
  const all = (act) => clock.follow(Promise.all(world.apps.map((_, i) => act(i))));
  const untilNoOrphans = () => clock.follow(eventually(() => world.orphans.length === 0, 'the end of the processes of ended agents'));
  const pick = (table, at) => Object.entries(table)[at % Object.keys(table).length];
  const runRound = async (round) => {
    await all(async (i) => {
      const [name, act] = pick(ACTIVITIES, 2 * i + round);
      await act(world, i).catch((error) => assert.fail(`${name}, session ${i}, round ${round}: ${error.message}`));
    });
    await pick(FAULTS, round)[1](world);
    // A last turn in each session, so that all are in the same state.
    await all((i) => world.turn(i, 'And on.'));
    world.forget();
    await clock.advance(ROUND_MS);
    await untilNoOrphans();
  };

  let round = 0;
  const runUntil = async (ms) => {
    for (; clock.elapsedMs < ms; round += 1) await runRound(round);
  };
  const measureBridge = () => {
    // The hub of this test is in the same process. Its messages may have megabytes, depending on the last activities.
    world.forget(0);
    return measure(world);
  };
  await runUntil(WARM_UP_MS);
  const before = await measureBridge();
  await runUntil(HOURS * HOUR_MS);
  const after = await measureBridge();
  t.diagnostic(`${(clock.elapsedMs / HOUR_MS).toFixed(1)} hours, ${round} rounds, ${world.pids.size} agents`);
  for (const [name, value] of Object.entries(after)) t.diagnostic(`${name}: ${before[name]}, then ${value}`);
  const grown = Object.keys(after).filter((name) => after[name] > before[name] + (TOLERANCES[name] ?? 0));
  assert.deepEqual(grown, []);
  assert.equal(after['agent processes'], SESSIONS);

  await clock.follow(world.stop());
  assert.deepEqual(world.agents, []);
  await untilNoOrphans();
});
