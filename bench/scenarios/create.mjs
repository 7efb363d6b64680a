/** New sessions of one namespace, 16 concurrent. The floor, the baseline worker, writes one row for each session. */

import { expectOk } from '../lib/http.mjs';
import { inLanes } from '../../scripts/lib/parallel.mjs';
import { takeTurns } from '../lib/measure.mjs';

const CONCURRENCY = 16;
const SESSIONS_PER_SLICE = 120;

export const rows = [{ id: 'create', work: 'create sessions, 16 concurrent', mainFigure: 'perSecond', maxCpuRatio: 2.5 }];

/** Creates sessions with new tags. */
async function create(server, label) {
  const connections = Array.from({ length: CONCURRENCY }, () => server.newCliConnection());
  const samples = [];
  const begin = performance.now();
  await inLanes([...new Array(SESSIONS_PER_SLICE).keys()], CONCURRENCY, async (number, lane) => {
    const start = performance.now();
    const response = await connections[lane].send(server.sessionRequest(connections[lane], `${label}-${number}`));
    samples.push(performance.now() - start);
    expectOk(response, 'POST session');
  });
  const seconds = (performance.now() - begin) / 1000;
  for (const connection of connections) connection.close();
  return { samples, count: SESSIONS_PER_SLICE, seconds };
}

export async function run({ servers, schedule, report }) {
  for (const server of servers) await create(server, 'warm-up');
  report('create', await takeTurns(servers, schedule.turns, { measureSlice: (server, _, turn) => create(server, `create-${turn}`) }));
}
