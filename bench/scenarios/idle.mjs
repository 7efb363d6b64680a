/**
 * A namespace in which nothing goes on, for minutes: how long its object is in memory, how long it works, what it asks of
 * D1. Then the same with signs of life. Counts, not times, are what matters: the hub with a tally around it, and no floor.
 */

import { SECRET } from '../lib/hub.mjs';
import { once } from '../lib/http.mjs';
import { sleep } from '../lib/measure.mjs';
import { startFresh } from '../lib/runtime.mjs';
import { Hub } from '../lib/sides.mjs';
import { subscribe, subscribeSocket } from '../lib/subscriber.mjs';

export const where = 'host';

const CLIS = 20;
const WEB_CLIENTS = 5;
const ALIVE_EVERY = 10_000;
/** How long the runtime keeps an object in memory after its last event. */
const LINGERS = 10_000;

const IDLE = `${CLIS} CLIs and ${WEB_CLIENTS} web clients that do nothing`;
const SIGNS = `${CLIS} CLIs alive every 10 s`;
const LONE = 'one CLI alive every 10 s';

/** How long an object was in memory and how often it woke for that, how long it worked a minute, what it sent to D1. */
const rowsOf = (id, work, statements) => [
  { id: `${id}-memory`, work: `${work}: in memory`, headline: 'percent' },
  { id: `${id}-wakes`, work: `${work}: wakes`, headline: 'perMinute' },
  { id: `${id}-work`, work: `${work}: at work, a minute`, headline: 'milliseconds' },
  { id: `${id}-statements`, work: `${work}: statements to D1`, headline: 'count', ...statements },
];

export const rows = [
  ...rowsOf('idle', IDLE, { target: { of: 'hub', most: 0 } }),
  ...rowsOf('signs', SIGNS, { target: { of: 'hub', most: 0 } }),
  ...rowsOf('lone', LONE, {}),
];

/** A namespace with its CLIs, half of them bridged by the worker, and its web clients, half of them streams. */
async function populate(runtime, namespace, clis, webClients) {
  const hub = new Hub({ ...runtime, secret: SECRET });
  await hub.enter(namespace);
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

async function tallyOf({ hub, namespace }) {
  return (await once(hub.url, 'GET', `/e2e/tally?namespace=${namespace}`)).json();
}

/** How long an object was in memory between two moments, in milliseconds: from each event on until it may sleep again. */
function inMemory(events, from, to) {
  let until = from;
  let total = 0;
  for (const event of events) {
    const end = Math.min((event.to ?? to) + LINGERS, to);
    total += Math.max(0, end - Math.max(event.from, until));
    until = Math.max(until, end);
  }
  return total;
}

/** Watches namespaces for so long; resolves to the figures of each by the ids of its rows. */
async function watch(namespaces, seconds) {
  const before = await Promise.all(namespaces.map(tallyOf));
  const from = Date.now();
  await sleep(seconds * 1000);
  const to = Date.now();
  const minutes = (to - from) / 60_000;
  const after = await Promise.all(namespaces.map(tallyOf));
  return after.map(({ wakes, events, statements }, n) => {
    const seen = events.slice(before[n].events.length).filter((event) => event.from <= to);
    const worked = seen.reduce((sum, event) => sum + (event.to ?? to) - event.from, 0);
    return {
      memory: { percent: (inMemory(seen, from, to) / (to - from)) * 100 },
      wakes: { perMinute: (wakes - before[n].wakes) / minutes },
      work: { milliseconds: worked / minutes },
      statements: { count: statements.length - before[n].statements.length },
    };
  });
}

/** Every CLI says every ten seconds that it is alive, evenly spread. Answers what ends that. */
function keepAlive({ hub, sockets, sessions }) {
  let n = 0;
  const timer = setInterval(() => {
    hub.keepAlive(sockets[n % sockets.length], sessions[n % sessions.length]);
    n += 1;
  }, ALIVE_EVERY / sockets.length);
  return () => clearInterval(timer);
}

export async function run({ kinds, build, quick, report, problem }) {
  if (!kinds.includes('hub')) return;
  const tell = (id, figures) => Object.entries(figures).forEach(([what, figure]) => report(`${id}-${what}`, { hub: figure }));
  const runtime = await startFresh('tallied', build);
  try {
    const crowd = await populate(runtime, 'idle', CLIS, WEB_CLIENTS);
    const lone = await populate(runtime, 'lone', 1, 0);
    const stopLone = keepAlive(lone);
    // What they came for is over: connecting, the first sign, and the alarm for those who do not connect.
    await sleep(2.5 * LINGERS);
    const [idle, alone] = await watch([crowd, lone], quick ? 60 : 180);
    stopLone();
    tell('idle', idle);
    tell('lone', alone);
    const stop = keepAlive(crowd);
    await sleep(1.2 * ALIVE_EVERY);
    const [signs] = await watch([crowd], quick ? 20 : 60);
    stop();
    tell('signs', signs);
    const lost = [...crowd.sockets, ...lone.sockets].filter(({ connected }) => !connected).length;
    if (lost > 0) problem(`${lost} CLIs lost their connection`);
    const deaf = crowd.heartbeats.filter((heard) => heard < (quick ? 3 : 8)).length;
    if (deaf > 0) problem(`${deaf} web clients missed heartbeats: ${crowd.heartbeats.join(', ')}`);
    crowd.close();
    lone.close();
  } finally {
    await runtime.stop();
  }
}
