/** 1,000 CLIs in one namespace: the rate at which they connect, their memory while idle, and the CPU time of their keep-alives. */

import { inLanes } from '../../scripts/lib/parallel.mjs';
import { cpuPercent, repeat, sleep } from '../lib/measure.mjs';
import { cpuSeconds, residentMegabytes } from '../lib/processes.mjs';

const CLIS = 1000;
const KEEP_ALIVE_MS = 2000;

export const rows = [
  { id: 'clis-connect', work: '1,000 CLIs connect, 32 at a time', mainFigure: 'perSecond' },
  { id: 'clis-memory', work: '1,000 idle CLIs: growth of memory for each', mainFigure: 'kilobytes' },
  { id: 'clis-alive', work: '1,000 CLIs, keep-alive every 2 s: CPU', mainFigure: 'percent' },
];

/** Connects CLIs, 32 at a time. Resolves to the sessions with their `socket`, the rate, and the CPU time of a CLI. */
export async function connectClis(server, tags) {
  const sessions = await server.openSessions(tags);
  const start = performance.now();
  const cpuBefore = cpuSeconds(server.pid);
  await inLanes(sessions, 32, async (session) => {
    session.socket = await server.connectCli(session);
  });
  const perSecond = tags.length / ((performance.now() - start) / 1000);
  return { sessions, connect: { perSecond, cpuMs: ((cpuSeconds(server.pid) - cpuBefore) * 1000) / tags.length } };
}

/** Sends the keep-alives of all CLIs, evenly spread. Resolves to the CPU use of workerd, in percent of one processor. */
export async function measureKeepAlives(server, sessions, intervalMs, seconds) {
  const stop = repeat((sessions.length * 1000) / intervalMs, (n) => {
    const session = sessions[n % sessions.length];
    server.keepAlive(session.socket, session);
  });
  // Excludes the first round, which activates every session, and writes the sessions to D1.
  await sleep(1.2 * intervalMs);
  const percent = await cpuPercent(server.pid, () => sleep(seconds * 1000));
  stop();
  return percent;
}

export async function run({ servers, quick, report, addNote, reportProblem }) {
  const figures = { connect: {}, memory: {}, alive: {} };
  for (const server of servers) {
    const before = residentMegabytes(server.pid);
    const tags = Array.from({ length: CLIS }, (_, index) => `cli-${index}`);
    const { sessions, connect } = await connectClis(server, tags);
    figures.connect[server.name] = connect;
    // The object hibernates about ten seconds after its last event.
    await sleep(quick ? 1000 : 15_000);
    const megabytes = residentMegabytes(server.pid);
    figures.memory[server.name] = { kilobytes: ((megabytes - before) * 1000) / CLIS };
    addNote(`${server.name}: workerd used ${before.toFixed(0)} MB before ${CLIS} CLIs connected, ${megabytes.toFixed(0)} MB after`);
    figures.alive[server.name] = { percent: await measureKeepAlives(server, sessions, KEEP_ALIVE_MS, quick ? 5 : 20) };
    const lostCount = sessions.filter(({ socket }) => !socket.connected).length;
    if (lostCount > 0) reportProblem(`${lostCount} of ${CLIS} CLIs lost their connection to the ${server.name}`);
    for (const { socket } of sessions) socket.close();
  }
  for (const [row, byServer] of Object.entries(figures)) report(`clis-${row}`, byServer);
}
