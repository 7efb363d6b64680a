/** CLIs connect and register their methods, 32 at once. The time of a CLI ends when its last registration is acknowledged. */

import { inLanes } from '../../scripts/lib/parallel.mjs';
import { takeTurns } from '../lib/measure.mjs';

const CONCURRENCY = 32;
const METHODS = Array.from({ length: 15 }, (_, number) => `method${number}`);
/** Limit on the CLIs of all slices and of the warm-up. */
const CLIS = 520;
const MAX_CLIS_IN_SLICE = 160;

const WORK = 'CLIs connect and register 15 methods, 32 at once';

export const rows = [
  { id: 'connect-connect', work: WORK, headline: 'perSecond', cpuTarget: 1.6 },
  { id: 'connect-header', work: `${WORK}, token in the upgrade`, headline: 'perSecond', cpuTarget: 1.6 },
];

async function connect(side, session, way) {
  const socket = await side.connectCli(session, way);
  const registrations = METHODS.map((method) => ({ method: `${session.id}:${method}` }));
  const last = registrations.pop();
  for (const registration of registrations) socket.emit('rpc-register', registration);
  const ack = await socket.timeout(10_000).emitWithAck('rpc-register', last);
  if (!ack.ok) throw new Error(`a method was not registered: ${JSON.stringify(ack)}`);
  return socket;
}

export async function run({ sides, pace, report, reportProblem }) {
  // The last `count` sessions are for the warm-up.
  const count = Math.min(MAX_CLIS_IN_SLICE, Math.floor(CLIS / (pace.rounds + 1)));
  const sessions = new Map();
  for (const side of sides) {
    sessions.set(side, await side.openSessions(Array.from({ length: count * (pace.rounds + 1) }, (_, number) => `connect-${number}`)));
  }
  for (const way of ['connect', 'header']) {
    const sockets = [];
    const slice = async (side, _, turn) => {
      const samples = [];
      const begin = performance.now();
      await inLanes(sessions.get(side).slice(turn * count, (turn + 1) * count), CONCURRENCY, async (session) => {
        const start = performance.now();
        sockets.push(await connect(side, session, way));
        samples.push(performance.now() - start);
      });
      return { samples, count, seconds: (performance.now() - begin) / 1000 };
    };
    for (const side of sides) await slice(side, undefined, pace.rounds);
    report(`connect-${way}`, await takeTurns(sides, pace.rounds, { slice }));
    const lost = sockets.filter(({ connected }) => !connected).length;
    if (lost > 0) reportProblem(`${lost} of ${sockets.length} CLIs lost their connection`);
    for (const socket of sockets) socket.close();
  }
}
