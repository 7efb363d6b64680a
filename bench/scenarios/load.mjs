/**
 * A full namespace for 150 s:
 * - 1,000 CLIs with a keep-alive every two seconds
 * - 200 web clients, which subscribe to all sessions and to the messages of one session; half over SSE, half over WebSocket
 * - 200 messages per second
 * - 20 sessions that stream live text
 *
 * There is no floor. The scenario checks that no message is lost, that acknowledgements are not delayed, and that memory does not grow.
 */

import { expectOk } from '../lib/http.mjs';
import { inLanes } from '../../scripts/lib/parallel.mjs';
import { latencies, median } from '../../scripts/lib/statistics.mjs';
import { cpuPercent, repeat, sleep, waitUntil } from '../lib/measure.mjs';
import { agentMessage, findStorageErrors, indexOf } from '../lib/messages.mjs';
import { residentMegabytes } from '../lib/processes.mjs';
import { openStream } from '../lib/stream.mjs';
import { subscribe, subscribeSocket } from '../lib/subscriber.mjs';

const CLIS = 1000;
const WATCHERS = 200;
const PER_SECOND = 200;
const KEEP_ALIVE_MS = 2000;
/** The number of sessions that stream: the last sessions, which have no messages. */
const STREAMS = 20;

export const rows = [
  {
    id: 'load-latency',
    work: 'full namespace, 200 messages/s: message -> web client',
    headline: 'p99',
    target: { of: 'hub', most: 250, unit: ' ms' },
  },
  {
    id: 'load-acks',
    work: 'full namespace, 200 messages/s: message -> ack',
    headline: 'p99',
    target: { of: 'hub', most: 250, unit: ' ms' },
  },
  { id: 'load-deltas', work: 'full namespace, 20 sessions stream: message-delta -> web client', headline: 'p99' },
  { id: 'load-processor', work: 'full namespace: CPU', headline: 'percent' },
  { id: 'load-memory', work: 'full namespace: resident memory at the end', headline: 'megabytes' },
  {
    id: 'load-growth',
    work: 'full namespace: memory growth in the second half',
    headline: 'percent',
    target: { of: 'hub', most: 5, unit: ' %' },
  },
];

/** Subscribes a web client to a session. `receivedCount`: the number of messages that arrived. */
async function subscribeWatcher(server, session, number, samples, reportProblem) {
  const watcher = { receivedCount: 0, sent: [] };
  const listener = (event, at) => {
    if (event.type !== 'message-received') return;
    const index = indexOf(event.message.content);
    if (index !== watcher.receivedCount) reportProblem(`web client ${number} got message ${index} instead of ${watcher.receivedCount}`);
    watcher.receivedCount = index + 1;
    samples.push(at - watcher.sent[index]);
  };
  const open = number % 2 === 0 ? subscribe : subscribeSocket;
  watcher.close = await open(server.newConnection(), `/api/events?all=true&sessionId=${session.id}`, listener);
  return watcher;
}

async function areAllActive(server) {
  const connection = server.newConnection();
  const answer = await connection.send(connection.get('/api/sessions'));
  connection.close();
  return expectOk(answer, 'GET sessions')
    .json()
    .sessions.every(({ active }) => active);
}

/** Growth of the median from the third quarter of the samples to the last quarter, in percent. */
function growthOf(samples) {
  const quarter = Math.floor(samples.length / 4);
  const third = median(samples.slice(2 * quarter, 3 * quarter));
  return (median(samples.slice(3 * quarter)) / third - 1) * 100;
}

export async function run({ servers, quick, report, addNote, reportProblem }) {
  const server = servers.find(({ kind }) => kind === 'hub');
  if (!server) return;
  // Long enough to find a leak: even without a leak, the memory grows for up to 100 s after the start.
  const seconds = quick ? 10 : 150;
  const sessions = await server.openSessions(Array.from({ length: CLIS }, (_, index) => `load-${index}`));
  const sockets = new Array(CLIS);
  await inLanes([...sessions.entries()], 32, async ([index, session]) => {
    sockets[index] = await server.connectCli(session);
  });
  const samples = [];
  const watchers = new Array(WATCHERS);
  await inLanes([...watchers.keys()], 16, async (number) => {
    watchers[number] = await subscribeWatcher(server, sessions[number], number, samples, reportProblem);
  });
  const stopAlive = repeat((CLIS * 1000) / KEEP_ALIVE_MS, (n) => server.keepAlive(sockets[n % CLIS], sessions[n % CLIS]));
  // Excludes the first round, which activates every session, and writes the sessions to D1.
  await waitUntil('every session to be active', () => areAllActive(server));

  const deltaSamples = [];
  const streaming = [...sessions.keys()].slice(-STREAMS);
  const streams = await Promise.all(streaming.map((number) => openStream(server, sockets[number], sessions[number], reportProblem)));
  for (const [number, { start }] of streams.entries()) start(deltaSamples, number / STREAMS);
  const acks = watchers.map(() => []);
  const ackSamples = [];
  const memory = [];
  const stopMessages = repeat(PER_SECOND, (n) => {
    const number = n % WATCHERS;
    const { sent } = watchers[number];
    const index = sent.push(performance.now()) - 1;
    const message = { sid: sessions[number].id, message: agentMessage(index), localId: `m-${index}` };
    sockets[number].emit('message', message, (ack) => {
      if (!ack?.ok) reportProblem(`message ${index} of session ${number} was refused: ${JSON.stringify(ack)}`);
      acks[number][index] = ack;
      ackSamples.push(performance.now() - sent[index]);
    });
  });
  const stopMemory = repeat(2, () => memory.push(residentMegabytes(server.pid)));
  const percent = await cpuPercent(server.pid, () => sleep(seconds * 1000));
  stopMessages();
  stopMemory();
  const sentCount = watchers.reduce((sum, { sent }) => sum + sent.length, 0);
  await waitUntil('the last message to reach its web client', async () =>
    watchers.every(({ receivedCount, sent }) => receivedCount === sent.length),
  ).catch(() =>
    reportProblem(
      `of ${sentCount} messages the web clients received ${watchers.reduce((sum, { receivedCount }) => sum + receivedCount, 0)}`,
    ),
  );
  await Promise.all(streams.map(({ stop }) => stop()));
  stopAlive();
  await inLanes([...watchers.keys()], 8, async (number) => {
    if (acks[number].length !== watchers[number].sent.length) reportProblem(`session ${number} has missing acks`);
    for (const error of findStorageErrors(await server.readAllMessages(sessions[number]), acks[number]))
      reportProblem(`session ${number}: ${error}`);
  });
  const lost = sockets.filter(({ connected }) => !connected).length;
  if (lost > 0) reportProblem(`${lost} of ${CLIS} CLIs lost their connection`);
  for (const { close } of [...watchers, ...streams]) close();
  for (const socket of sockets) socket.close();
  addNote(`${sentCount} messages in ${seconds} s; the web clients and the stored messages were compared with them`);
  report('load-latency', { hub: latencies(samples) });
  report('load-acks', { hub: latencies(ackSamples) });
  report('load-deltas', { hub: latencies(deltaSamples) });
  report('load-processor', { hub: { percent } });
  report('load-memory', { hub: { megabytes: memory.at(-1) } });
  report('load-growth', { hub: { percent: growthOf(memory) } });
}
