/**
 * 20 namespaces of one hub. 19 namespaces are quiet: a CLI, a web client, five messages per second. The noisy namespace first sends the next
 * message at each ack, then 5,000 messages per second without waiting for acks. The local runtime runs all namespaces on one thread, so
 * this is the worst case of a noisy neighbour.
 */

import { latencyFigures } from '../../scripts/lib/statistics.mjs';
import { openLiveSession, sendSteadily } from '../lib/live-session.mjs';
import { repeat } from '../lib/measure.mjs';
import { agentMessage, flood } from '../lib/messages.mjs';

const QUIET_NAMESPACES = 19;
/** Messages per second of a quiet namespace. */
const PER_SECOND = 5;
const NOISY_CLIS = 4;
/** Unacknowledged messages per noisy CLI. */
const IN_FLIGHT = 50;
/** Messages per second of the namespace that waits for no acks. */
const UNPACED_PER_SECOND = 5_000;

export const rows = [
  { id: 'tenants-alone', work: '19 quiet namespaces: message -> SSE', mainFigure: 'p99' },
  { id: 'tenants-beside', work: 'the same with a noisy namespace', mainFigure: 'p99', target: { of: 'hub', most: 100, unit: ' ms' } },
  { id: 'tenants-noise', work: 'messages of the noisy namespace', mainFigure: 'perSecond' },
  {
    id: 'tenants-unpaced',
    work: 'the same with a namespace that sends 5,000 messages/s and waits for no ack',
    mainFigure: 'p99',
    target: { of: 'hub', most: 100, unit: ' ms' },
  },
  { id: 'tenants-unpaced-noise', work: 'messages of that namespace, acknowledged', mainFigure: 'perSecond' },
];

/** Connects the CLIs of a noisy namespace. */
async function connectNoise(namespaceHub) {
  const sessions = await namespaceHub.openSessions(Array.from({ length: NOISY_CLIS }, (_, cli) => `noisy-${cli}`));
  return { sessions, sockets: await Promise.all(sessions.map((session) => namespaceHub.connectCli(session))) };
}

/** Starts the namespace that waits for acks. Resolves to a function that stops it, and resolves to the acknowledged messages per second. */
async function startNoise(namespaceHub) {
  let isDone = false;
  const { sessions, sockets } = await connectNoise(namespaceHub);
  const start = performance.now();
  const floods = sockets.map((socket, cli) => flood(socket, sessions[cli], { inFlight: IN_FLIGHT, isDone: () => isDone }));
  return async () => {
    isDone = true;
    const acks = await Promise.all(floods);
    const perSecond = acks.flat().length / ((performance.now() - start) / 1000);
    for (const socket of sockets) socket.close();
    return perSecond;
  };
}

/**
 * Starts the namespace that waits for no ack; a CLI whose socket the hub closes connects again. Resolves to a function that stops the namespace,
 * and returns the acknowledged messages per second.
 */
async function startUnpaced(namespaceHub) {
  const { sessions, sockets } = await connectNoise(namespaceHub);
  let isDone = false;
  let acknowledged = 0;
  const start = performance.now();
  const reconnect = async (cli) => {
    if (isDone) return;
    // Without a new socket, the other CLIs continue: the row has the number of acknowledged messages.
    const socket = await namespaceHub.connectCli(sessions[cli]).catch(() => undefined);
    if (isDone) socket?.close();
    else if (socket) sockets[cli] = socket.once('disconnect', () => reconnect(cli));
  };
  sockets.forEach((socket, cli) => socket.once('disconnect', () => reconnect(cli)));
  const stop = repeat(UNPACED_PER_SECOND, (n) => {
    const [socket, { id: sid }] = [sockets[n % NOISY_CLIS], sessions[n % NOISY_CLIS]];
    // A client would keep the message until it is connected again.
    if (!socket.connected) return;
    socket.emit('message', { sid, message: agentMessage(n), localId: `m-${n}` }, (ack) => {
      if (ack?.ok) acknowledged += 1;
    });
  });
  return () => {
    stop();
    isDone = true;
    for (const socket of sockets) socket.close();
    return acknowledged / ((performance.now() - start) / 1000);
  };
}

export async function run({ servers, quick, report, reportProblem }) {
  const hub = servers.find(({ kind }) => kind === 'hub');
  const seconds = quick ? 4 : 20;
  const sessions = [];
  for (let n = 0; n < QUIET_NAMESPACES; n += 1) {
    sessions.push(await openLiveSession(await hub.inNamespace(`quiet-${n}`), 'quiet', { reportProblem }));
  }
  const measure = async () => latencyFigures((await sendSteadily(sessions, PER_SECOND * QUIET_NAMESPACES, seconds)).events);
  report('tenants-alone', { hub: await measure() });
  const stop = await startNoise(await hub.inNamespace('noisy'));
  report('tenants-beside', { hub: await measure() });
  report('tenants-noise', { hub: { perSecond: await stop() } });
  const stopUnpaced = await startUnpaced(await hub.inNamespace('unpaced'));
  report('tenants-unpaced', { hub: await measure() });
  report('tenants-unpaced-noise', { hub: { perSecond: stopUnpaced() } });
  for (const { close } of sessions) close();
}
