/**
 * 20 namespaces of one hub. 19 namespaces are quiet: a CLI, a web client, five messages per second. The noisy namespace sends the next
 * message at each ack. The local runtime runs all namespaces on one thread, so this is the worst case of a noisy neighbour.
 */

import { latencyFigures } from '../../scripts/lib/statistics.mjs';
import { openLiveSession, sendSteadily } from '../lib/live-session.mjs';
import { flood } from '../lib/messages.mjs';

const QUIET_NAMESPACES = 19;
/** Messages per second of a quiet namespace. */
const PER_SECOND = 5;
const NOISY_CLIS = 4;
/** Unacknowledged messages per noisy CLI. */
const IN_FLIGHT = 50;

export const rows = [
  { id: 'tenants-alone', work: '19 quiet namespaces: message -> SSE', mainFigure: 'p99' },
  { id: 'tenants-beside', work: 'the same with a noisy namespace', mainFigure: 'p99', target: { of: 'hub', most: 100, unit: ' ms' } },
  { id: 'tenants-noise', work: 'messages of the noisy namespace', mainFigure: 'perSecond' },
];

/** Starts the noisy namespace. Resolves to a function that stops it, and resolves to the acknowledged messages per second. */
async function startNoise(namespaceHub) {
  let isDone = false;
  const sessions = await namespaceHub.openSessions(Array.from({ length: NOISY_CLIS }, (_, cli) => `noisy-${cli}`));
  const sockets = await Promise.all(sessions.map((session) => namespaceHub.connectCli(session)));
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
  for (const { close } of sessions) close();
}
