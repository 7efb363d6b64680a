/**
 * A session that receives 200,000 messages with local ids from one CLI, which sends the next message at each ack. A second, quiet namespace
 * sends a few messages and reads its list of sessions. The local runtime runs both namespaces on one thread. Checks that:
 * - the rate does not fall when the hub no longer has all local ids in memory;
 * - the quiet namespace does not wait.
 */

import { latencyFigures } from '../../scripts/lib/statistics.mjs';
import { openLiveSession } from '../lib/live-session.mjs';
import { expectOk } from '../lib/http.mjs';
import { repeat, sleep } from '../lib/measure.mjs';
import { flood } from '../lib/messages.mjs';
import { cpuSeconds } from '../lib/processes.mjs';

const MESSAGES = 200_000;
/** Enough messages that the hub has all local ids in memory in the first quarter, but not in the last quarter. */
const QUICK_MESSAGES = 24_000;
const IN_FLIGHT = 100;
/** The messages per second, and the requests per second, of the quiet namespace. */
const PER_SECOND = 20;

const WORK = 'messages with local ids into one session';
const QUIET = 'a quiet namespace meanwhile';
const mostMs = (most) => ({ of: 'hub', most, unit: ' ms' });

export const rows = [
  { id: 'long-session-first', work: `${WORK}, the first quarter of 200,000`, mainFigure: 'perSecond' },
  { id: 'long-session-last', work: `${WORK}, the last quarter`, mainFigure: 'perSecond' },
  {
    id: 'long-session-ratio',
    work: `${WORK}: rate of the last quarter / first`,
    mainFigure: 'percent',
    target: { of: 'hub', least: 70, unit: ' %' },
  },
  { id: 'long-session-acks', work: `${QUIET}: message -> ack`, mainFigure: 'p99', target: mostMs(50) },
  { id: 'long-session-reads', work: `${QUIET}: GET sessions`, mainFigure: 'p99', target: mostMs(50) },
];

/** Starts the quiet namespace. Resolves to a function that stops the namespace and resolves to the latencies. */
async function startQuietNamespace(server, reportProblem) {
  const session = await openLiveSession(server, 'quiet', { clients: 0, reportProblem });
  const connection = server.newConnection();
  const reads = [];
  const stop = repeat(PER_SECOND, () => session.send());
  let isRunning = true;
  const reading = (async () => {
    while (isRunning) {
      const sentAt = performance.now();
      expectOk(await connection.send(connection.get('/api/sessions')), 'GET sessions');
      reads.push(performance.now() - sentAt);
      await sleep(1000 / PER_SECOND);
    }
  })();
  return async () => {
    stop();
    isRunning = false;
    await reading;
    connection.close();
    session.close();
    return { acks: session.samples.acks, reads };
  };
}

/** Returns the rate of messages, and the CPU time of a message, between two times. */
function figuresBetween(start, end) {
  const count = end.acked - start.acked;
  return { perSecond: (count * 1000) / (end.at - start.at), cpuMs: ((end.cpu - start.cpu) * 1000) / count };
}

export async function run({ servers, quick, report, addNote, reportProblem }) {
  const server = servers.find(({ kind }) => kind === 'hub');
  const count = quick ? QUICK_MESSAGES : MESSAGES;
  const session = await server.openSession('long');
  const socket = await server.connectCli(session);
  const stop = await startQuietNamespace(await server.inNamespace('quiet'), reportProblem);
  const takeSnapshot = (acked) => ({ acked, at: performance.now(), cpu: cpuSeconds(server.pid) });
  const quarterMarks = [takeSnapshot(0)];
  const onAck = (acked) => acked % (count / 4) === 0 && quarterMarks.push(takeSnapshot(acked));
  const sent = await flood(socket, session, { inFlight: IN_FLIGHT, isDone: (sentCount) => sentCount === count, onAck });
  const misnumbered = sent.findIndex(({ seq }, index) => seq !== index + 1);
  if (misnumbered !== -1) reportProblem(`message ${misnumbered} got the seq ${sent[misnumbered].seq}`);
  const { acks, reads } = await stop();
  socket.close();
  const first = figuresBetween(quarterMarks[0], quarterMarks[1]);
  const last = figuresBetween(quarterMarks[3], quarterMarks[4]);
  addNote(`${count} messages; the longest ack of the quiet namespace took ${Math.max(...acks).toFixed(0)} ms`);
  report('long-session-first', { hub: first });
  report('long-session-last', { hub: last });
  report('long-session-ratio', { hub: { percent: (last.perSecond / first.perSecond) * 100 } });
  report('long-session-acks', { hub: latencyFigures(acks) });
  report('long-session-reads', { hub: latencyFigures(reads) });
}
