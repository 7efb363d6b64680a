/**
 * A full namespace for 150 s:
 * - 1,000 CLIs with a keep-alive every two seconds
 * - 220 web clients, which subscribe to all sessions and to the messages of one session; half over SSE, half over WebSocket
 * - 200 messages per second into 200 of the sessions
 * - live text, ten deltas per second, in the other 20 sessions with a web client
 *
 * Checks that no message is lost, that acknowledgements are not delayed, and that memory does not grow.
 */

import { eventually } from '../../scripts/lib/await.mjs';
import { inLanes } from '../../scripts/lib/parallel.mjs';
import { latencyFigures, median } from '../../scripts/lib/statistics.mjs';
import { openLiveSession, sendSteadily } from '../lib/live-session.mjs';
import { cpuPercent, repeat } from '../lib/measure.mjs';
import { findStorageErrors } from '../lib/messages.mjs';
import { residentMegabytes } from '../lib/processes.mjs';
import { subscribe, subscribeSocket } from '../lib/subscriber.mjs';

const CLIS = 1000;
const WEB_CLIENTS = 200;
const MESSAGES_PER_SECOND = 200;
const KEEP_ALIVE_MS = 2000;
const STREAMS = 20;
const DELTAS_PER_SECOND = 10;

const WORK = 'full namespace, 200 messages/s';

export const rows = [
  { id: 'load-latency', work: `${WORK}: message -> web client`, mainFigure: 'p99', target: { of: 'hub', most: 250, unit: ' ms' } },
  { id: 'load-acks', work: `${WORK}: message -> ack`, mainFigure: 'p99', target: { of: 'hub', most: 250, unit: ' ms' } },
  { id: 'load-deltas', work: 'full namespace, 20 sessions stream: message-delta -> web client', mainFigure: 'p99' },
  { id: 'load-processor', work: 'full namespace: CPU', mainFigure: 'percent' },
  { id: 'load-memory', work: 'full namespace: resident memory at the end', mainFigure: 'megabytes' },
  {
    id: 'load-growth',
    work: 'full namespace: memory growth in the second half',
    mainFigure: 'percent',
    target: { of: 'hub', most: 5, unit: ' %' },
  },
];

async function areAllActive(server) {
  const { sessions } = await server.request('GET', '/api/sessions');
  return sessions.every(({ active }) => active);
}

/** Returns the growth of the median from the third quarter of the samples to the last quarter, in percent. */
function growthPercent(samples) {
  const quarter = Math.floor(samples.length / 4);
  const thirdQuarter = median(samples.slice(2 * quarter, 3 * quarter));
  return (median(samples.slice(3 * quarter)) / thirdQuarter - 1) * 100;
}

export async function run({ servers, quick, report, reportProblem }) {
  const server = servers.find(({ kind }) => kind === 'hub');
  // Long enough to find a leak: even without a leak, the memory grows for up to 100 s after the start.
  const seconds = quick ? 10 : 150;
  const sessions = new Array(CLIS);
  await inLanes([...sessions.keys()], 32, async (n) => {
    const clients = n < WEB_CLIENTS + STREAMS ? 1 : 0;
    const open = (connection, path, listener) => (n % 2 === 0 ? subscribe : subscribeSocket)(connection, `${path}&all=true`, listener);
    sessions[n] = await openLiveSession(server, `load-${n}`, { clients, open, reportProblem });
  });
  const [talking, streaming] = [sessions.slice(0, WEB_CLIENTS), sessions.slice(WEB_CLIENTS, WEB_CLIENTS + STREAMS)];
  const stopKeepAlives = repeat((CLIS * 1000) / KEEP_ALIVE_MS, (n) => {
    const { socket, session } = sessions[n % CLIS];
    server.keepAlive(socket, session);
  });
  // Excludes the first round, which activates every session, and writes the sessions to D1.
  await eventually(() => areAllActive(server), 'active sessions');

  const megabytes = [];
  const stopMemory = repeat(2, () => megabytes.push(residentMegabytes(server.pid)));
  const stopDeltas = repeat(STREAMS * DELTAS_PER_SECOND, (n) => streaming[n % STREAMS].sendDelta());
  /** @type {Awaited<ReturnType<typeof sendSteadily>>} */
  let sent;
  const percent = await cpuPercent(server.pid, async () => {
    sent = await sendSteadily(talking, MESSAGES_PER_SECOND, seconds);
  });
  stopMemory();
  stopDeltas();
  await eventually(() => streaming.every(({ hasAllArrived }) => hasAllArrived()), 'the last delta');
  stopKeepAlives();
  await inLanes(talking, 8, async ({ session, acks }) => {
    for (const error of findStorageErrors(await server.readAllMessages(session), acks)) reportProblem(`session ${session.id}: ${error}`);
  });
  const lostCount = sessions.filter(({ socket }) => !socket.connected).length;
  if (lostCount > 0) reportProblem(`${lostCount} of ${CLIS} CLIs lost their connection`);
  for (const { close } of sessions) close();
  report('load-latency', { hub: latencyFigures(sent.events) });
  report('load-acks', { hub: latencyFigures(sent.acks) });
  report('load-deltas', { hub: latencyFigures(streaming.flatMap(({ samples }) => samples.deltas)) });
  report('load-processor', { hub: { percent } });
  report('load-memory', { hub: { megabytes: megabytes.at(-1) } });
  report('load-growth', { hub: { percent: growthPercent(megabytes) } });
}
