/**
 * The capacity of one namespace: the CPU share of workerd for several rates of messages, numbers of web clients, rates of RPC, and
 * numbers of CLIs with keep-alives. The floor, the baseline worker (bench/README.md), does not do this work. The results are in docs/CAPACITY.md.
 */

import { expectOk } from '../lib/http.mjs';
import { inLanes } from '../../scripts/lib/parallel.mjs';
import { latencyFigures } from '../../scripts/lib/statistics.mjs';
import { cpuPercent, repeat, sleep, waitUntil } from '../lib/measure.mjs';
import { agentMessage, messageIndex } from '../lib/messages.mjs';
import { cpuSeconds, residentMegabytes } from '../lib/processes.mjs';
import { subscribe } from '../lib/subscriber.mjs';

/** Messages per second from 20 CLIs, each with a web client. */
const MESSAGE_RATES = [50, 200, 500, 1000, 2000, 4000];
const CLIS = 20;
/** The numbers of web clients of one session, and the messages per second of this session. */
const FAN_OUTS = [20, 100, 200, 400];
const FAN_OUT_RATE = 20;
/** The numbers of concurrent calls of one CLI. */
const CALLERS = [1, 16, 64];
/** The numbers of idle CLIs. The local runtime needs two file descriptors for each CLI, and usually may open 20,000. */
const CLI_COUNTS = [1000, 4000, 8000];
const KEEP_ALIVE_MS = 10_000;

const formatCount = (number) => number.toLocaleString('en-US');

export const rows = [
  ...MESSAGE_RATES.map((rate) => ({
    id: `messages-${rate}`,
    work: `${formatCount(rate)} messages/s of 1 KB, ${CLIS} CLIs, ${CLIS} web clients: CPU`,
    mainFigure: 'percent',
  })),
  ...FAN_OUTS.map((clients) => ({
    id: `events-${clients}`,
    work: `${FAN_OUT_RATE} messages/s to ${clients} web clients (${formatCount(FAN_OUT_RATE * clients)} events/s): CPU`,
    mainFigure: 'percent',
  })),
  ...CALLERS.map((callers) => ({ id: `rpc-${callers}`, work: `RPC of 1 KB, ${callers} at once: CPU`, mainFigure: 'percent' })),
  ...CLI_COUNTS.flatMap((clis) => [
    { id: `clis-${clis}`, work: `${formatCount(clis)} idle CLIs, keep-alive every 10 s: CPU`, mainFigure: 'percent' },
    { id: `clis-${clis}-memory`, work: `${formatCount(clis)} idle CLIs: resident memory for each CLI`, mainFigure: 'kilobytes' },
  ]),
];

/**
 * Opens a session with a CLI and web clients. Adds the latencies of all events to `samples`. Returns three functions:
 * - `send`: the CLI sends a message.
 * - `isComplete`: whether each web client has received all messages.
 * - `close` closes the session's connections.
 */
async function openSession(server, tag, clients, samples, reportProblem) {
  const session = await server.openSession(tag);
  const socket = await server.connectCli(session);
  const sentTimes = [];
  /** For each web client: the number of received messages. */
  const receivedCounts = new Array(clients).fill(0);
  const unsubscribers = await Promise.all(
    [...receivedCounts.keys()].map((client) =>
      subscribe(server.newConnection(), server.paths(session).events, (event, at) => {
        if (event.type !== 'message-received') return;
        const index = messageIndex(event.message.content);
        if (index !== receivedCounts[client])
          reportProblem(`${tag}: web client ${client} got message ${index} instead of ${receivedCounts[client]}`);
        receivedCounts[client] = index + 1;
        samples.push(at - sentTimes[index]);
      }),
    ),
  );
  const send = () => {
    const index = sentTimes.push(performance.now()) - 1;
    socket.emit('message', { sid: session.id, message: agentMessage(index) });
  };
  const isComplete = () => receivedCounts.every((count) => count === sentTimes.length);
  const close = () => {
    for (const unsubscribe of unsubscribers) unsubscribe();
    socket.close();
  };
  return { send, isComplete, close };
}

/** Sends messages at a constant rate. The sessions take turns. Resolves to the figures of the events after the first second. */
async function sendMessages(server, sessions, rate, seconds, samples) {
  const stop = repeat(rate, (n) => sessions[n % sessions.length].send());
  await sleep(1000);
  samples.length = 0;
  const start = performance.now();
  const percent = await cpuPercent(server.pid, () => sleep(seconds * 1000));
  const figures = { percent, ...latencyFigures(samples), perSecond: samples.length / ((performance.now() - start) / 1000) };
  stop();
  await waitUntil('the last message to reach each web client', async () => sessions.every(({ isComplete }) => isComplete()));
  return { hub: figures };
}

async function measureMessages(hub, seconds, report, reportProblem) {
  const namespaceHub = await hub.inNamespace('messages');
  const samples = [];
  const tags = Array.from({ length: CLIS }, (_, n) => `messages-${n}`);
  const sessions = await Promise.all(tags.map((tag) => openSession(namespaceHub, tag, 1, samples, reportProblem)));
  for (const rate of MESSAGE_RATES) report(`messages-${rate}`, await sendMessages(namespaceHub, sessions, rate, seconds, samples));
  for (const { close } of sessions) close();
}

async function measureEvents(hub, seconds, report, reportProblem) {
  const namespaceHub = await hub.inNamespace('events');
  for (const clients of FAN_OUTS) {
    const samples = [];
    const session = await openSession(namespaceHub, `events-${clients}`, clients, samples, reportProblem);
    report(`events-${clients}`, await sendMessages(namespaceHub, [session], FAN_OUT_RATE, seconds, samples));
    session.close();
  }
}

async function measureCalls(hub, seconds, report) {
  const namespaceHub = await hub.inNamespace('calls');
  const session = await namespaceHub.openSession('calls');
  const socket = await namespaceHub.connectCli(session);
  const answer = JSON.stringify({ success: true, diff: 'x'.repeat(1000) });
  socket.on('rpc-request', (_, respond) => respond(answer));
  const path = namespaceHub.paths(session).diff;
  await namespaceHub.registerMethods(socket, session, ['gitDiffFile'], path);
  for (const callers of CALLERS) {
    const samples = [];
    const start = performance.now();
    const end = start + seconds * 1000;
    const call = async () => {
      const connection = namespaceHub.newConnection();
      for (let sentAt = performance.now(); sentAt < end; sentAt = performance.now()) {
        expectOk(await connection.send(connection.get(path)), `GET ${path}`);
        samples.push(performance.now() - sentAt);
      }
      connection.close();
    };
    const percent = await cpuPercent(namespaceHub.pid, () => Promise.all(Array.from({ length: callers }, call)));
    const perSecond = samples.length / ((performance.now() - start) / 1000);
    report(`rpc-${callers}`, { hub: { percent, ...latencyFigures(samples), perSecond } });
  }
  socket.close();
}

async function measureClis(hub, quick, report, addNote, reportProblem) {
  const namespaceHub = await hub.inNamespace('clis');
  const emptyMegabytes = residentMegabytes(namespaceHub.pid);
  const [sessions, sockets] = [[], []];
  for (const clis of quick ? CLI_COUNTS.slice(0, 1) : CLI_COUNTS) {
    const newSessions = await namespaceHub.openSessions(
      Array.from({ length: clis - sockets.length }, (_, n) => `cli-${sockets.length + n}`),
    );
    const before = { at: performance.now(), cpuSeconds: cpuSeconds(namespaceHub.pid) };
    const newSockets = new Array(newSessions.length);
    await inLanes([...newSessions.entries()], 32, async ([index, session]) => {
      newSockets[index] = await namespaceHub.connectCli(session);
    });
    const [elapsed, used] = [(performance.now() - before.at) / 1000, cpuSeconds(namespaceHub.pid) - before.cpuSeconds];
    addNote(`${formatCount(newSessions.length)} CLIs connected in ${elapsed.toFixed(1)} s, ${((used / elapsed) * 100).toFixed(0)} % CPU`);
    sessions.push(...newSessions);
    sockets.push(...newSockets);
    const stop = repeat((clis * 1000) / KEEP_ALIVE_MS, (n) => namespaceHub.keepAlive(sockets[n % clis], sessions[n % clis]));
    // Excludes the first round, which activates every session, and writes the sessions to D1.
    await sleep(1.2 * KEEP_ALIVE_MS);
    const percent = await cpuPercent(namespaceHub.pid, () => sleep((quick ? 1 : 2) * KEEP_ALIVE_MS));
    stop();
    report(`clis-${clis}`, { hub: { percent } });
    report(`clis-${clis}-memory`, { hub: { kilobytes: ((residentMegabytes(namespaceHub.pid) - emptyMegabytes) * 1000) / clis } });
    const lostCount = sockets.filter((socket) => !socket.connected).length;
    if (lostCount > 0) reportProblem(`${lostCount} of ${formatCount(clis)} CLIs lost their connection`);
  }
  for (const socket of sockets) socket.close();
}

export async function run({ servers, quick, report, addNote, reportProblem }) {
  const hub = servers.find(({ kind }) => kind === 'hub');
  if (!hub) return;
  const seconds = quick ? 2 : 10;
  await measureMessages(hub, seconds, report, reportProblem);
  await measureEvents(hub, seconds, report, reportProblem);
  await measureCalls(hub, seconds, report);
  await measureClis(hub, quick, report, addNote, reportProblem);
}
