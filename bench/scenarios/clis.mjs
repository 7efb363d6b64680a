/**
 * 1,000 CLIs in one namespace: the rate at which they connect, the CPU time of their keep-alives, and their memory while idle. The memory
 * is measured with the token in CONNECT, and with the token in the upgrade.
 */

import { inLanes } from '../../scripts/lib/parallel.mjs';
import { cpuPercent, repeat, sleep } from '../lib/measure.mjs';
import { cpuSeconds, residentMegabytes } from '../lib/processes.mjs';

const CLIS = 1000;
const CONCURRENCY = 32;
const KEEP_ALIVE_MS = 2000;

export const rows = [
  { id: 'clis-connect', work: '1,000 CLIs connect, 32 at a time', mainFigure: 'perSecond', otherHubA: '923/s', otherHubB: '699/s' },
  {
    id: 'clis-memory',
    work: '1,000 idle CLIs: growth of memory for each',
    mainFigure: 'kilobytes',
    otherHubA: '127 MB in all',
    otherHubB: '198 MB in all',
  },
  { id: 'clis-memory-header', work: '1,000 more with the token in the upgrade: for each', mainFigure: 'kilobytes' },
  { id: 'clis-alive', work: '1,000 CLIs, keep-alive every 2 s: CPU', mainFigure: 'percent', otherHubA: '6 %', otherHubB: '12 %' },
];

async function connectAll(server, sessions, tokenIn) {
  const sockets = new Array(sessions.length);
  const start = performance.now();
  const before = cpuSeconds(server.pid);
  await inLanes([...sessions.entries()], CONCURRENCY, async ([index, session]) => {
    sockets[index] = await server.connectCli(session, tokenIn);
  });
  const perSecond = sessions.length / ((performance.now() - start) / 1000);
  return { sockets, connect: { perSecond, cpuMs: ((cpuSeconds(server.pid) - before) * 1000) / sessions.length } };
}

/** Sends the keep-alives of all CLIs, evenly spread. Resolves to workerd's CPU use in percent of one processor. */
async function measureKeepAlives(server, sockets, sessions, seconds) {
  const stop = repeat((sockets.length * 1000) / KEEP_ALIVE_MS, (n) =>
    server.keepAlive(sockets[n % sockets.length], sessions[n % sessions.length]),
  );
  // Excludes the first round, which activates every session, and writes the sessions to D1.
  await sleep(KEEP_ALIVE_MS + 1000);
  const percent = await cpuPercent(server.pid, () => sleep(seconds * 1000));
  stop();
  return percent;
}

/** Connects CLIs. Measures the growth of workerd's resident memory for each CLI, until the CLIs are idle. */
async function measureGrowth(server, sessions, tokenIn, quick) {
  const before = residentMegabytes(server.pid);
  const { sockets, connect } = await connectAll(server, sessions, tokenIn);
  // The object hibernates about ten seconds after its last event.
  await sleep(quick ? 1000 : 15_000);
  const megabytes = residentMegabytes(server.pid);
  return { sockets, connect, memory: { kilobytes: ((megabytes - before) * 1000) / sessions.length, megabytes, before } };
}

export async function run({ servers, quick, report, addNote, reportProblem, hostPid }) {
  const figures = { connect: {}, memory: {}, header: {}, alive: {} };
  for (const server of servers) {
    const openSessions = (name) => server.openSessions(Array.from({ length: CLIS }, (_, index) => `${name}-${index}`));
    const sessions = await openSessions('cli');
    const { sockets, connect, memory } = await measureGrowth(server, sessions, undefined, quick);
    figures.connect[server.name] = connect;
    figures.memory[server.name] = memory;
    addNote(
      `${server.name}: workerd used ${memory.before.toFixed(0)} MB before 1,000 CLIs connected, ${memory.megabytes.toFixed(0)} MB after`,
    );
    figures.alive[server.name] = { percent: await measureKeepAlives(server, sockets, sessions, quick ? 5 : 20) };
    const headerFigures = await measureGrowth(server, await openSessions('header'), 'header', quick);
    figures.header[server.name] = headerFigures.memory;
    sockets.push(...headerFigures.sockets);
    const lostCount = sockets.filter((socket) => !socket.connected).length;
    if (lostCount > 0) reportProblem(`${lostCount} of ${sockets.length} CLIs lost their connection to the ${server.name}`);
    for (const socket of sockets) socket.close();
  }
  addNote(`miniflare's process, which a deployed hub does not have, used ${residentMegabytes(hostPid).toFixed(0)} MB`);
  report('clis-connect', figures.connect);
  report('clis-memory', figures.memory);
  report('clis-memory-header', figures.header);
  report('clis-alive', figures.alive);
}
