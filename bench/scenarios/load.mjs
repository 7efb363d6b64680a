/**
 * A full namespace for 150 s:
 * - 1,000 CLIs with a keep-alive every two seconds
 * - 200 web clients, which subscribe to all sessions and to the messages of one session; half over SSE, half over WebSocket
 * - 200 messages per second
 * - 20 sessions that stream live text
 *
 * The floor, the baseline worker (bench/README.md), does not do this work. The scenario checks that no message is lost, that acknowledgements are not delayed,
 * and that memory does not grow.
 */

import { expectOk } from '../lib/http.mjs';
import { inLanes } from '../../scripts/lib/parallel.mjs';
import { latencyFigures, median } from '../../scripts/lib/statistics.mjs';
import { cpuPercent, repeat, sleep, waitUntil } from '../lib/measure.mjs';
import { agentMessage, findStorageErrors, messageIndex } from '../lib/messages.mjs';
import { residentMegabytes } from '../lib/processes.mjs';
import { openStream } from '../lib/stream.mjs';
import { subscribe, subscribeSocket } from '../lib/subscriber.mjs';

const CLIS = 1000;
const WEB_CLIENTS = 200;
const MESSAGES_PER_SECOND = 200;
const KEEP_ALIVE_MS = 2000;
/** The number of sessions that stream: the last sessions, which have no messages. */
const STREAMS = 20;

export const rows = [
  {
    id: 'load-latency',
    work: 'full namespace, 200 messages/s: message -> web client',
    mainFigure: 'p99',
    target: { of: 'hub', most: 250, unit: ' ms' },
  },
  {
    id: 'load-acks',
    work: 'full namespace, 200 messages/s: message -> ack',
    mainFigure: 'p99',
    target: { of: 'hub', most: 250, unit: ' ms' },
  },
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

/** Subscribes a web client to a session. `receivedCount`: the number of messages that arrived. `sentTimes`: when each message was sent. */
async function subscribeWebClient(server, session, number, samples, reportProblem) {
  const webClient = { receivedCount: 0, sentTimes: [] };
  const listener = (event, at) => {
    if (event.type !== 'message-received') return;
    const index = messageIndex(event.message.content);
    if (index !== webClient.receivedCount) reportProblem(`web client ${number} got message ${index} instead of ${webClient.receivedCount}`);
    webClient.receivedCount = index + 1;
    samples.push(at - webClient.sentTimes[index]);
  };
  const open = number % 2 === 0 ? subscribe : subscribeSocket;
  webClient.close = await open(server.newConnection(), `/api/events?all=true&sessionId=${session.id}`, listener);
  return webClient;
}

async function areAllActive(server) {
  const connection = server.newConnection();
  const answer = await connection.send(connection.get('/api/sessions'));
  connection.close();
  return expectOk(answer, 'GET sessions')
    .json()
    .sessions.every(({ active }) => active);
}

/** Returns the growth of the median from the third quarter of the samples to the last quarter, in percent. */
function growthPercent(samples) {
  const quarter = Math.floor(samples.length / 4);
  const thirdQuarter = median(samples.slice(2 * quarter, 3 * quarter));
  return (median(samples.slice(3 * quarter)) / thirdQuarter - 1) * 100;
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
  const webClients = new Array(WEB_CLIENTS);
  await inLanes([...webClients.keys()], 16, async (number) => {
    webClients[number] = await subscribeWebClient(server, sessions[number], number, samples, reportProblem);
  });
  const stopKeepAlives = repeat((CLIS * 1000) / KEEP_ALIVE_MS, (n) => server.keepAlive(sockets[n % CLIS], sessions[n % CLIS]));
  // Excludes the first round, which activates every session, and writes the sessions to D1.
  await waitUntil('every session to be active', () => areAllActive(server));

  const deltaSamples = [];
  const streamingSessions = [...sessions.keys()].slice(-STREAMS);
  const streams = await Promise.all(
    streamingSessions.map((number) => openStream(server, sockets[number], sessions[number], reportProblem)),
  );
  for (const [number, { start }] of streams.entries()) start(deltaSamples, number / STREAMS);
  const acks = webClients.map(() => []);
  const ackSamples = [];
  const megabytes = [];
  const stopMessages = repeat(MESSAGES_PER_SECOND, (n) => {
    const number = n % WEB_CLIENTS;
    const { sentTimes } = webClients[number];
    const index = sentTimes.push(performance.now()) - 1;
    const message = { sid: sessions[number].id, message: agentMessage(index), localId: `m-${index}` };
    sockets[number].emit('message', message, (ack) => {
      if (!ack?.ok) reportProblem(`message ${index} of session ${number} was refused: ${JSON.stringify(ack)}`);
      acks[number][index] = ack;
      ackSamples.push(performance.now() - sentTimes[index]);
    });
  });
  const stopMemory = repeat(2, () => megabytes.push(residentMegabytes(server.pid)));
  const percent = await cpuPercent(server.pid, () => sleep(seconds * 1000));
  stopMessages();
  stopMemory();
  const sentCount = webClients.reduce((sum, { sentTimes }) => sum + sentTimes.length, 0);
  await waitUntil('the last message to reach its web client', async () =>
    webClients.every(({ receivedCount, sentTimes }) => receivedCount === sentTimes.length),
  ).catch(() =>
    reportProblem(
      `of ${sentCount} messages the web clients received ${webClients.reduce((sum, { receivedCount }) => sum + receivedCount, 0)}`,
    ),
  );
  await Promise.all(streams.map(({ stop }) => stop()));
  stopKeepAlives();
  await inLanes([...webClients.keys()], 8, async (number) => {
    if (acks[number].length !== webClients[number].sentTimes.length) reportProblem(`session ${number} has missing acks`);
    for (const error of findStorageErrors(await server.readAllMessages(sessions[number]), acks[number]))
      reportProblem(`session ${number}: ${error}`);
  });
  const lostCount = sockets.filter(({ connected }) => !connected).length;
  if (lostCount > 0) reportProblem(`${lostCount} of ${CLIS} CLIs lost their connection`);
  for (const { close } of [...webClients, ...streams]) close();
  for (const socket of sockets) socket.close();
  addNote(`${sentCount} messages in ${seconds} s; the web clients and the stored messages were compared with them`);
  report('load-latency', { hub: latencyFigures(samples) });
  report('load-acks', { hub: latencyFigures(ackSamples) });
  report('load-deltas', { hub: latencyFigures(deltaSamples) });
  report('load-processor', { hub: { percent } });
  report('load-memory', { hub: { megabytes: megabytes.at(-1) } });
  report('load-growth', { hub: { percent: growthPercent(megabytes) } });
}
