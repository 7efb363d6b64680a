/**
 * A session that receives 200,000 messages with local ids from one CLI. The CLI has 100 messages in flight, and sends the next message at
 * each ack. A second, quiet namespace sends a few messages and reads its list of sessions. The local runtime runs both namespaces on one
 * thread. Only the hub runs this scenario, not the baseline worker that bench/README.md calls the floor. The scenario checks that:
 * - the rate does not fall when the hub no longer has all local ids in memory;
 * - the quiet namespace does not wait.
 */

import { expectOk } from '../lib/http.mjs';
import { withTimeout } from '../../scripts/lib/await.mjs';
import { latencyFigures } from '../../scripts/lib/statistics.mjs';
import { repeat, sleep } from '../lib/measure.mjs';
import { agentMessage } from '../lib/messages.mjs';
import { cpuSeconds } from '../lib/processes.mjs';

const MESSAGES = 200_000;
/** Enough messages that the hub has all local ids in memory in the first quarter, but not in the last quarter. */
const QUICK_MESSAGES = 24_000;
const IN_FLIGHT = 100;
/** The messages per second, and the requests per second, of the quiet namespace. */
const PER_SECOND = 20;
const TIMEOUT_MS = 500_000;

const WORK = 'messages with local ids into one session';

export const rows = [
  { id: 'long-session-first', work: `${WORK}, the first quarter of 200,000`, mainFigure: 'perSecond' },
  { id: 'long-session-last', work: `${WORK}, the last quarter`, mainFigure: 'perSecond' },
  {
    id: 'long-session-ratio',
    work: `${WORK}: rate of the last quarter / first`,
    mainFigure: 'percent',
    target: { of: 'hub', least: 70, unit: ' %' },
  },
  {
    id: 'long-session-acks',
    work: 'a quiet namespace meanwhile: message -> ack',
    mainFigure: 'p99',
    target: { of: 'hub', most: 50, unit: ' ms' },
  },
  {
    id: 'long-session-reads',
    work: 'a quiet namespace meanwhile: GET sessions',
    mainFigure: 'p99',
    target: { of: 'hub', most: 50, unit: ' ms' },
  },
];

/** Sends messages with local ids. Each ack triggers the next message, and calls `onAck` with the number of acks so far. */
function sendAll(socket, session, count, onAck) {
  const sending = new Promise((resolve, reject) => {
    let sent = 0;
    let acked = 0;
    const next = () => {
      const index = sent;
      sent += 1;
      socket.emit('message', { sid: session.id, message: agentMessage(index), localId: `m-${index}` }, (ack) => {
        if (ack?.seq !== index + 1) reject(new Error(`message ${index} got the ack ${JSON.stringify(ack)}`));
        acked += 1;
        onAck(acked);
        if (sent < count) next();
        else if (acked === count) resolve();
      });
    };
    socket.once('disconnect', (reason) => reject(new Error(`the CLI's socket closed (${reason}) after ${acked} acks`)));
    while (sent < IN_FLIGHT) next();
  });
  return withTimeout(sending, `the acks of ${count} messages`, TIMEOUT_MS);
}

/** Starts the quiet namespace. Resolves to a function that stops the namespace and resolves to the latencies. */
async function startQuietNamespace(server, reportProblem) {
  const session = await server.openSession('quiet');
  const socket = await server.connectCli(session);
  const connection = server.newConnection();
  const acks = [];
  const reads = [];
  const stop = repeat(PER_SECOND, (n) => {
    const sentAt = performance.now();
    socket.emit('message', { sid: session.id, message: agentMessage(n), localId: `q-${n}` }, (ack) => {
      if (ack?.seq !== n + 1) reportProblem(`the quiet namespace got the ack ${JSON.stringify(ack)} for message ${n}`);
      acks.push(performance.now() - sentAt);
    });
  });
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
    socket.close();
    return { acks, reads };
  };
}

/** Returns the rate of messages, and the CPU time of a message, between two times. */
function figuresBetween(start, end) {
  const count = end.acked - start.acked;
  return { perSecond: (count * 1000) / (end.at - start.at), cpuMs: ((end.cpu - start.cpu) * 1000) / count };
}

export async function run({ servers, quick, report, addNote, reportProblem }) {
  const server = servers.find(({ kind }) => kind === 'hub');
  if (!server) return;
  const count = quick ? QUICK_MESSAGES : MESSAGES;
  const session = await server.openSession('long');
  const socket = await server.connectCli(session);
  const stop = await startQuietNamespace(await server.inNamespace('quiet'), reportProblem);
  const takeSnapshot = (acked) => ({ acked, at: performance.now(), cpu: cpuSeconds(server.pid) });
  const quarterMarks = [takeSnapshot(0)];
  await sendAll(socket, session, count, (acked) => {
    if (acked % (count / 4) === 0) quarterMarks.push(takeSnapshot(acked));
  });
  const { acks, reads } = await stop();
  socket.removeAllListeners('disconnect');
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
