/**
 * New sessions of one namespace, 16 concurrent: while the object caches all sessions, and with more sessions than it caches. The floor,
 * the baseline worker, writes one row for each session.
 */

import { expectOk } from '../lib/http.mjs';
import { inLanes } from '../../scripts/lib/parallel.mjs';
import { takeTurns } from '../lib/measure.mjs';

const CONCURRENCY = 16;
/** How many sessions an object caches (`MAX_CACHED_SESSIONS` in `src/limits.rs`). */
const CACHED_SESSIONS = 1000;
const WARM_UP = 100;
/** The most sessions that the slices of `create-below` create. */
const MAX_SESSIONS_BELOW = 840;
const MAX_SESSIONS_PER_SLICE = 120;

const WORK = 'create sessions, 16 concurrent';

export const rows = [
  { id: 'create-below', work: `${WORK}, below 1,000 sessions`, mainFigure: 'perSecond', maxCpuRatio: 2.5 },
  { id: 'create-beyond', work: `${WORK}, beyond 1,000 sessions`, mainFigure: 'perSecond', maxCpuRatio: 2.5 },
];

/** Creates sessions with new tags. */
async function create(server, label, count) {
  const connections = Array.from({ length: CONCURRENCY }, () => server.newCliConnection());
  const samples = [];
  const begin = performance.now();
  await inLanes([...new Array(count).keys()], CONCURRENCY, async (number, lane) => {
    const start = performance.now();
    const response = await connections[lane].send(server.sessionRequest(connections[lane], `${label}-${number}`));
    samples.push(performance.now() - start);
    expectOk(response, 'POST session');
  });
  const seconds = (performance.now() - begin) / 1000;
  for (const connection of connections) connection.close();
  return { samples, count, seconds };
}

export async function run({ servers, schedule, report }) {
  const count = Math.min(MAX_SESSIONS_PER_SLICE, Math.floor(MAX_SESSIONS_BELOW / schedule.turns));
  const measure = (id) => takeTurns(servers, schedule.turns, { measureSlice: (server, _, turn) => create(server, `${id}-${turn}`, count) });
  for (const server of servers) await create(server, 'warm-up', WARM_UP);
  report('create-below', await measure('create-below'));
  for (const server of servers) await create(server, 'fill', CACHED_SESSIONS - count * schedule.turns);
  report('create-beyond', await measure('create-beyond'));
}
