/**
 * Measures an idle namespace for some minutes: how long its object is in memory and runs, how many statements the
 * object sends to D1, and the price of an idle month. Then measures the namespace with keep-alives. This scenario counts usage, so it uses the
 * counting hub, and does not run on the floor (bench/README.md).
 */

import { idleTable } from '../lib/cost-report.mjs';
import { SECRET } from '../lib/hub.mjs';
import { sendOnce } from '../lib/http.mjs';
import { sleep } from '../lib/measure.mjs';
import { startFresh } from '../lib/runtime.mjs';
import { Hub } from '../lib/servers.mjs';
import { subscribe, subscribeSocket } from '../lib/subscriber.mjs';
import { readUsage, scale, subtract } from '../lib/usage.mjs';

export const where = 'host';

const CLIS = 20;
const WEB_CLIENTS = 5;
const KEEP_ALIVE_MS = 10_000;
/** How long the runtime keeps an object in memory after its last event. */
const HIBERNATION_DELAY_MS = 10_000;
const MINUTES_PER_MONTH = 30 * 24 * 60;

const IDLE = `${CLIS} CLIs and ${WEB_CLIENTS} web clients, idle`;
const KEEP_ALIVES = `${CLIS} CLIs, keep-alive every 10 s`;
const SINGLE_CLI = '1 CLI, keep-alive every 10 s';

const rowsOf = (id, work, statements) => [
  { id: `${id}-memory`, work: `${work}: in memory`, mainFigure: 'percent' },
  { id: `${id}-wakes`, work: `${work}: wakes`, mainFigure: 'perMinute' },
  { id: `${id}-work`, work: `${work}: running, per minute`, mainFigure: 'milliseconds' },
  { id: `${id}-statements`, work: `${work}: statements to D1`, mainFigure: 'count', ...statements },
];

export const rows = [
  ...rowsOf('idle', IDLE, { target: { of: 'hub', most: 0 } }),
  ...rowsOf('keep-alives', KEEP_ALIVES, { target: { of: 'hub', most: 0 } }),
  ...rowsOf('lone', SINGLE_CLI, {}),
];

/** Connects CLIs and web clients to a namespace. Half of the CLIs send the token in CONNECT. Half of the web clients use SSE. */
async function populate(runtime, namespace, clis, webClients) {
  const hub = new Hub({ ...runtime, secret: SECRET });
  await hub.signIn(namespace);
  const sessions = await hub.openSessions(Array.from({ length: clis }, (_, n) => `idle-${n}`));
  const sockets = [];
  for (const [n, session] of sessions.entries()) {
    sockets.push(await hub.connectCli(session, n % 2 === 0 ? 'connect' : 'header'));
  }
  const heartbeats = new Array(webClients).fill(0);
  const closers = [];
  for (const n of heartbeats.keys()) {
    const open = n % 2 === 0 ? subscribe : subscribeSocket;
    const listener = ({ type }) => type === 'heartbeat' && (heartbeats[n] += 1);
    closers.push(await open(hub.newConnection(), '/api/events?all=true', listener));
  }
  const close = () => [...closers, ...sockets.map((socket) => () => socket.close())].forEach((step) => step());
  return { hub, namespace, sessions, sockets, heartbeats, close };
}

async function readTally({ hub, namespace }) {
  return (await sendOnce(hub.url, 'GET', `/e2e/tally?namespace=${namespace}`)).json();
}

/** Returns how long an object was in memory in an interval, in milliseconds: during each event and the following hibernation delay. */
function millisecondsInMemory(events, from, to) {
  let countedUntil = from;
  let total = 0;
  for (const event of events) {
    const end = Math.min((event.to ?? to) + HIBERNATION_DELAY_MS, to);
    total += Math.max(0, end - Math.max(event.from, countedUntil));
    countedUntil = Math.max(countedUntil, end);
  }
  return total;
}

/** Observes namespaces for a time. Resolves for each namespace to its `figures`, and to the usage of a `month` at the same rate. */
async function observe(namespaces, seconds) {
  const before = await Promise.all(namespaces.map(readTally));
  const usedBefore = await Promise.all(namespaces.map(({ hub, namespace }) => readUsage(hub, namespace)));
  const from = Date.now();
  await sleep(seconds * 1000);
  const to = Date.now();
  const minutes = (to - from) / 60_000;
  const after = await Promise.all(namespaces.map(readTally));
  const usedAfter = await Promise.all(namespaces.map(({ hub, namespace }) => readUsage(hub, namespace)));
  return after.map(({ wakes, events, statements }, n) => {
    const observed = events.slice(before[n].events.length).filter((event) => event.from <= to);
    const busyMs = observed.reduce((sum, event) => sum + (event.to ?? to) - event.from, 0);
    const figures = {
      memory: { percent: (millisecondsInMemory(observed, from, to) / (to - from)) * 100 },
      wakes: { perMinute: (wakes - before[n].wakes) / minutes },
      work: { milliseconds: busyMs / minutes },
      statements: { count: statements.length - before[n].statements.length },
    };
    return { figures, month: scale(subtract(usedAfter[n], usedBefore[n]), MINUTES_PER_MONTH / minutes) };
  });
}

/** Starts to send the keep-alives of all CLIs, evenly spread. Returns a function that stops the keep-alives. */
function startKeepAlives({ hub, sockets, sessions }) {
  let n = 0;
  const timer = setInterval(() => {
    hub.keepAlive(sockets[n % sockets.length], sessions[n % sessions.length]);
    n += 1;
  }, KEEP_ALIVE_MS / sockets.length);
  return () => clearInterval(timer);
}

export async function run({ kinds, build, quick, report, addTable, reportProblem }) {
  if (!kinds.includes('hub')) return;
  const reportAll = (id, { figures }) => Object.entries(figures).forEach(([row, figure]) => report(`${id}-${row}`, { hub: figure }));
  const runtime = await startFresh('counting', build);
  try {
    const fullNamespace = await populate(runtime, 'idle', CLIS, WEB_CLIENTS);
    const singleCliNamespace = await populate(runtime, 'lone', 1, 0);
    const stopSingleCli = startKeepAlives(singleCliNamespace);
    // Excludes the time of the connects, the first keep-alives and the alarm for unauthenticated sockets.
    await sleep(2.5 * HIBERNATION_DELAY_MS);
    const [idle, singleCli] = await observe([fullNamespace, singleCliNamespace], quick ? 60 : 180);
    stopSingleCli();
    reportAll('idle', idle);
    reportAll('lone', singleCli);
    const stop = startKeepAlives(fullNamespace);
    await sleep(1.2 * KEEP_ALIVE_MS);
    const [withKeepAlives] = await observe([fullNamespace], quick ? 20 : 60);
    stop();
    reportAll('keep-alives', withKeepAlives);
    /** @type {[string, any][]} */
    const months = [
      [IDLE, idle.month],
      [SINGLE_CLI, singleCli.month],
      [KEEP_ALIVES, withKeepAlives.month],
    ];
    addTable('What a month of 30 such days and nights uses', idleTable(months));
    const lost = [...fullNamespace.sockets, ...singleCliNamespace.sockets].filter(({ connected }) => !connected).length;
    if (lost > 0) reportProblem(`${lost} CLIs lost their connection`);
    const missing = fullNamespace.heartbeats.filter((count) => count < (quick ? 3 : 8)).length;
    if (missing > 0) reportProblem(`${missing} web clients missed heartbeats: ${fullNamespace.heartbeats.join(', ')}`);
    fullNamespace.close();
    singleCliNamespace.close();
  } finally {
    await runtime.stop();
  }
}
