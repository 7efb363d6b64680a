/**
 * One session that gets 200,000 messages with local ids from one CLI, which sends the next message at each ack. A second
 * namespace is quiet: it sends messages and reads its list of sessions at a constant rate. The local runtime runs both on
 * one thread. There is no floor: the rate must not fall when the hub no longer has all local ids in memory, and the quiet
 * namespace must not wait.
 */

import { expectOk } from '../lib/http.mjs';
import { latencies, repeat, withTimeout } from '../lib/measure.mjs';
import { agentMessage } from '../lib/messages.mjs';

const MESSAGES = Number(process.env.LK_MESSAGES ?? 200_000);
/** A short run is past the local ids in memory, 10,000. */
const QUICK_MESSAGES = 60_000;
/** Unacknowledged messages. */
const IN_FLIGHT = Number(process.env.LK_IN_FLIGHT ?? 1000);
/** Messages and requests of the quiet namespace, each. */
const PER_SECOND = 20;
const TIMEOUT_MS = 500_000;

const WORK = 'messages with local ids into one session';

export const rows = [
  { id: 'long-session-first', work: `${WORK}: the first quarter of 200,000`, headline: 'perSecond' },
  { id: 'long-session-last', work: `${WORK}: the last quarter`, headline: 'perSecond' },
  { id: 'long-session-ratio', work: `${WORK}: last / first`, headline: 'percent', target: { of: 'hub', least: 70, unit: ' %' } },
  { id: 'long-session-quiet', work: 'a quiet namespace meanwhile: message -> ack', headline: 'p99', target: { of: 'hub', most: 50, unit: ' ms' } },
  { id: 'long-session-read', work: 'a quiet namespace meanwhile: GET sessions', headline: 'p99', target: { of: 'hub', most: 50, unit: ' ms' } },
];

/** Sends messages with local ids, the next one at each ack. Resolves to the times of the acks and their messages' seqs. */
function sendAll(socket, session, count) {
  const sending = new Promise((resolve, reject) => {
    const times = [];
    let sent = 0;
    const next = () => {
      const index = sent;
      sent += 1;
      socket.emit('message', { sid: session.id, message: agentMessage(index), localId: `m-${index}` }, (ack) => {
        if (ack?.seq !== index + 1) reject(new Error(`message ${index} got the ack ${JSON.stringify(ack)}`));
        times.push(performance.now());
        if (sent < count) next();
        else if (times.length === count) resolve(times);
      });
    };
    socket.once('disconnect', (reason) => reject(new Error(`the CLI's socket closed (${reason}) after ${times.length} acks`)));
    while (sent < Math.min(IN_FLIGHT, count)) next();
  });
  return withTimeout(sending, `the acks of ${count} messages`, TIMEOUT_MS);
}

/** Uses the quiet namespace at a constant rate. Returns a function that stops, and returns the latencies. */
async function useQuietly(side, reportProblem) {
  const session = await side.openSession('quiet');
  const socket = await side.connectCli(session);
  const acks = [];
  const reads = [];
  const stop = repeat(PER_SECOND, (n) => {
    const sent = performance.now();
    socket.emit('message', { sid: session.id, message: agentMessage(n), localId: `q-${n}` }, (ack) => {
      if (ack?.seq !== n + 1) reportProblem(`the quiet namespace got the ack ${JSON.stringify(ack)} for message ${n}`);
      acks.push(performance.now() - sent);
    });
    const connection = side.newConnection();
    connection
      .send(connection.get('/api/sessions'))
      .then((response) => {
        expectOk(response, 'GET sessions');
        reads.push(performance.now() - sent);
      })
      .catch((error) => reportProblem(error.message))
      .finally(() => connection.close());
  });
  return async () => {
    stop();
    socket.close();
    return { acks, reads };
  };
}

const rateOf = (times) => (times.length - 1) / ((times.at(-1) - times[0]) / 1000);

export async function run({ sides, quick, report, addNote, reportProblem }) {
  const side = sides.find(({ kind }) => kind === 'hub');
  if (!side) return;
  const count = quick ? QUICK_MESSAGES : MESSAGES;
  const session = await side.openSession('long');
  const socket = await side.connectCli(session);
  const stop = await useQuietly(await side.inNamespace('quiet'), reportProblem);
  const times = await sendAll(socket, session, count);
  const { acks, reads } = await stop();
  socket.removeAllListeners('disconnect');
  socket.close();
  const quarter = Math.floor(count / 4);
  const first = rateOf(times.slice(0, quarter));
  const last = rateOf(times.slice(-quarter));
  addNote(`${count} messages, ${IN_FLIGHT} in flight; the quiet namespace's longest ack ${Math.max(...acks).toFixed(0)} ms, longest read ${Math.max(...reads).toFixed(0)} ms`);
  report('long-session-first', { hub: { perSecond: first } });
  report('long-session-last', { hub: { perSecond: last } });
  report('long-session-ratio', { hub: { percent: (last / first) * 100 } });
  report('long-session-quiet', { hub: latencies(acks) });
  report('long-session-read', { hub: latencies(reads) });
}
