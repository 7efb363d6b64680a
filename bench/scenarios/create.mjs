/** New sessions of one namespace, 16 at once: while the object caches all sessions, and with more sessions. The floor writes one row each. */

import { expectOk } from '../lib/http.mjs';
import { inLanes } from '../../scripts/lib/parallel.mjs';
import { takeTurns } from '../lib/measure.mjs';

const CONCURRENCY = 16;
/** The sessions that an object caches (`MAX_CACHED_SESSIONS` in `src/limits.rs`). */
const CACHED = 1000;
const WARM_UP = 100;
/** Limit on the sessions that all slices below `CACHED` create. */
const MAX_BELOW = 840;
const MAX_SESSIONS_IN_SLICE = 120;

const WORK = 'create sessions, at 16';

export const rows = [
  { id: 'create-below', work: `${WORK}, below 1,000 sessions`, headline: 'perSecond', cpuTarget: 2.5 },
  { id: 'create-beyond', work: `${WORK}, beyond 1,000 sessions`, headline: 'perSecond', cpuTarget: 2.5 },
];

/** Creates sessions with new tags. */
async function create(side, label, count) {
  const connections = Array.from({ length: CONCURRENCY }, () => side.newCliConnection());
  const samples = [];
  const begin = performance.now();
  await inLanes([...new Array(count).keys()], CONCURRENCY, async (number, lane) => {
    const start = performance.now();
    const response = await connections[lane].send(side.createRequest(connections[lane], `${label}-${number}`));
    samples.push(performance.now() - start);
    expectOk(response, 'POST session');
  });
  const seconds = (performance.now() - begin) / 1000;
  for (const connection of connections) connection.close();
  return { samples, count, seconds };
}

export async function run({ sides, pace, report }) {
  const count = Math.min(MAX_SESSIONS_IN_SLICE, Math.floor(MAX_BELOW / pace.rounds));
  const measure = (id) => takeTurns(sides, pace.rounds, { slice: (side, _, turn) => create(side, `${id}-${turn}`, count) });
  for (const side of sides) await create(side, 'warm-up', WARM_UP);
  report('create-below', await measure('create-below'));
  for (const side of sides) await create(side, 'fill', CACHED - count * pace.rounds);
  report('create-beyond', await measure('create-beyond'));
}
