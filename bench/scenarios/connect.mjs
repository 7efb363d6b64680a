/** 32 CLIs at a time connect, and each registers 15 methods. The time of a CLI ends when its last registration is acknowledged. */

import { inLanes } from '../../scripts/lib/parallel.mjs';
import { takeTurns } from '../lib/measure.mjs';

const CONCURRENCY = 32;
const METHODS = Array.from({ length: 15 }, (_, number) => `method${number}`);
/** Limit on the CLIs that connect to one server, in all slices and the warm-up together. A slice is the part of a turn that measures one server. */
const MAX_CLIS = 520;
/** A slice is the part of a turn that measures one server. */
const MAX_CLIS_PER_SLICE = 160;

const WORK = 'CLIs connect, 32 at a time, and each registers 15 methods';

export const rows = [
  { id: 'connect-connect', work: WORK, mainFigure: 'perSecond', maxCpuRatio: 1.6 },
  { id: 'connect-header', work: `${WORK}, token in the upgrade`, mainFigure: 'perSecond', maxCpuRatio: 1.6 },
];

async function connect(server, session, tokenIn) {
  const socket = await server.connectCli(session, tokenIn);
  const registrations = METHODS.map((method) => ({ method: `${session.id}:${method}` }));
  const last = registrations.pop();
  for (const registration of registrations) socket.emit('rpc-register', registration);
  const ack = await socket.timeout(10_000).emitWithAck('rpc-register', last);
  if (!ack.ok) throw new Error(`a method was not registered: ${JSON.stringify(ack)}`);
  return socket;
}

export async function run({ servers, schedule, report, reportProblem }) {
  const slices = schedule.turns + 1;
  const clisPerSlice = Math.min(MAX_CLIS_PER_SLICE, Math.floor(MAX_CLIS / slices));
  const sessions = new Map();
  for (const server of servers) {
    sessions.set(server, await server.openSessions(Array.from({ length: clisPerSlice * slices }, (_, number) => `connect-${number}`)));
  }
  for (const tokenIn of ['connect', 'header']) {
    const sockets = [];
    const measureSlice = async (server, _, turn) => {
      const samples = [];
      const begin = performance.now();
      await inLanes(sessions.get(server).slice(turn * clisPerSlice, (turn + 1) * clisPerSlice), CONCURRENCY, async (session) => {
        const start = performance.now();
        sockets.push(await connect(server, session, tokenIn));
        samples.push(performance.now() - start);
      });
      return { samples, count: clisPerSlice, seconds: (performance.now() - begin) / 1000 };
    };
    // The sessions of the last slice are for the warm-up.
    for (const server of servers) await measureSlice(server, undefined, schedule.turns);
    report(`connect-${tokenIn}`, await takeTurns(servers, schedule.turns, { measureSlice }));
    const lostCount = sockets.filter(({ connected }) => !connected).length;
    if (lostCount > 0) reportProblem(`${lostCount} of ${sockets.length} CLIs lost their connection`);
    for (const socket of sockets) socket.close();
  }
}
