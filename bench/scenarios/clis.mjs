/** A thousand CLIs in one namespace: how fast they connect, what they hold while idle, what their alive events cost. */

import { inLanes, sleep } from '../lib/measure.mjs';
import { processorSeconds, residentMegabytes } from '../lib/processes.mjs';

const CLIS = 1000;
const AT_ONCE = 32;
const ALIVE_EVERY = 2000;

export const rows = [
  { id: 'clis-connect', work: '1,000 CLIs connect, 32 at once', headline: 'perSecond', hubA: '923/s', hubB: '699/s' },
  { id: 'clis-memory', work: '1,000 idle CLIs: resident memory', headline: 'megabytes', hubA: '127 MB', hubB: '198 MB' },
  { id: 'clis-alive', work: '1,000 CLIs alive every 2 s: processor', headline: 'percent', hubA: '6 %', hubB: '12 %' },
];

async function connectAll(side, sessions) {
  const sockets = new Array(sessions.length);
  const start = performance.now();
  await inLanes([...sessions.entries()], AT_ONCE, async ([index, session]) => {
    sockets[index] = await side.connectCli(session);
  });
  return { sockets, perSecond: sessions.length / ((performance.now() - start) / 1000) };
}

/** Every CLI says every two seconds that it is alive, evenly spread; workerd's share of one processor meanwhile. */
async function stayAlive(side, sockets, sessions, seconds) {
  const start = performance.now();
  let sent = 0;
  const timer = setInterval(() => {
    const due = ((performance.now() - start) / ALIVE_EVERY) * sockets.length;
    for (; sent < due; sent += 1) side.keepAlive(sockets[sent % sockets.length], sessions[sent % sessions.length]);
  }, 10);
  // The first round makes every session active, which is a transition and written; the rounds after it are the steady state.
  await sleep(ALIVE_EVERY + 1000);
  const before = { at: performance.now(), used: processorSeconds(side.pid) };
  await sleep(seconds * 1000);
  const used = processorSeconds(side.pid) - before.used;
  const elapsed = (performance.now() - before.at) / 1000;
  clearInterval(timer);
  return (used / elapsed) * 100;
}

export async function run({ sides, quick, report, note, problem, hostPid }) {
  const figures = { connect: {}, memory: {}, alive: {} };
  for (const side of sides) {
    const sessions = await side.openSessions(Array.from({ length: CLIS }, (_, index) => `cli-${index}`));
    const empty = residentMegabytes(side.pid);
    const { sockets, perSecond } = await connectAll(side, sessions);
    // An object goes to sleep about ten seconds after its last event; idle means that.
    await sleep(quick ? 1000 : 15_000);
    const megabytes = residentMegabytes(side.pid);
    figures.connect[side.name] = { perSecond };
    figures.memory[side.name] = { megabytes, before: empty };
    note(`${side.name}: workerd held ${empty.toFixed(0)} MB before the CLIs came, ${megabytes.toFixed(0)} MB with them`);
    figures.alive[side.name] = { percent: await stayAlive(side, sockets, sessions, quick ? 5 : 20) };
    const gone = sockets.filter((socket) => !socket.connected).length;
    if (gone > 0) problem(`${gone} of ${CLIS} CLIs lost their connection to the ${side.name}`);
    for (const socket of sockets) socket.close();
  }
  note(`miniflare's host process, which a deployed hub does not have: ${residentMegabytes(hostPid).toFixed(0)} MB`);
  report('clis-connect', figures.connect);
  report('clis-memory', figures.memory);
  report('clis-alive', figures.alive);
}
