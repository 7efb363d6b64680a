/**
 * Live text: the time from a CLI's `message-delta` to a web client of its session. Also measures the time to the acknowledgement of a
 * `message` while 20 other sessions stream.
 */

import { sleep, takeTurns, waitForTurn, waitUntil } from '../lib/measure.mjs';
import { agentMessage } from '../lib/messages.mjs';
import { openStream } from '../lib/stream.mjs';

const SESSIONS = 20;
const MESSAGES_PER_SECOND = 50;

export const rows = [
  { id: 'stream-1', work: 'message-delta -> SSE at 10/s, 1 session', mainFigure: 'p50' },
  { id: 'stream-20', work: 'message-delta -> SSE at 10/s each, 20 sessions', mainFigure: 'p50' },
  { id: 'stream-quiet', work: 'message -> ack at 50/s, nothing streams', mainFigure: 'p50' },
  {
    id: 'stream-acks',
    work: 'message -> ack at 50/s, 20 sessions stream',
    mainFigure: 'p50',
    target: { of: 'hub', most: 10, unit: ' ms' },
  },
];

/** Opens sessions that can stream. `streamDuring(work)` streams while `work` runs, and resolves to the latencies in milliseconds. */
async function openStreams(server, label, sessions, reportProblem) {
  const streams = [];
  const sockets = [];
  for (let number = 0; number < sessions; number += 1) {
    const session = await server.openSession(`${label}-${number}`);
    sockets.push(await server.connectCli(session));
    streams.push(await openStream(server, sockets.at(-1), session, reportProblem));
  }
  const streamDuring = async (work) => {
    const samples = [];
    for (const [number, { start }] of streams.entries()) start(samples, number / sessions);
    await work();
    await Promise.all(streams.map(({ stop }) => stop()));
    return samples;
  };
  const close = () => {
    for (const stream of streams) stream.close();
    for (const socket of sockets) socket.close();
  };
  return { streamDuring, close };
}

/** Opens a session with a CLI. `send(count)` resolves to the latencies of the acknowledgements, in milliseconds. */
async function openSender(server, label, reportProblem) {
  const session = await server.openSession(label);
  const socket = await server.connectCli(session);
  const send = async (count) => {
    const samples = [];
    const start = performance.now() + 20;
    for (let index = 0; index < count; index += 1) {
      await waitForTurn(start, index, MESSAGES_PER_SECOND);
      const sentAt = performance.now();
      socket.emit('message', { sid: session.id, message: agentMessage(index) }, (ack) => {
        if (ack?.ok) samples.push(performance.now() - sentAt);
        else reportProblem(`message ${index} was refused: ${JSON.stringify(ack)}`);
      });
    }
    await waitUntil('the last acknowledgement', async () => samples.length === count).catch(() =>
      reportProblem(`${count - samples.length} of ${count} messages have no ack`),
    );
    return samples;
  };
  return { send, close: () => socket.close() };
}

/** Resolves to a map from each server to the result of `open(server)`. */
async function openEach(servers, open) {
  const opened = new Map();
  for (const server of servers) opened.set(server, await open(server));
  return opened;
}

export async function run({ servers, schedule, report, reportProblem }) {
  const seconds = 2 * schedule.seconds;
  const count = Math.round(MESSAGES_PER_SECOND * seconds);
  const open = (sessions) => openEach(servers, (server) => openStreams(server, `stream-${sessions}`, sessions, reportProblem));
  const [single, many] = [await open(1), await open(SESSIONS)];
  const deltas = (streams) => async (server) => {
    const samples = await streams.get(server).streamDuring(() => sleep(seconds * 1000));
    return { samples, count: samples.length };
  };
  for (const streams of [single, many])
    await Promise.all([...streams.values()].map(({ streamDuring }) => streamDuring(() => sleep(schedule.warmUp * 1000))));
  report('stream-1', await takeTurns(servers, schedule.turns, { measureSlice: deltas(single) }));
  report('stream-20', await takeTurns(servers, schedule.turns, { measureSlice: deltas(many) }));
  const senders = await openEach(servers, (server) => openSender(server, 'stream-acks', reportProblem));
  for (const { send } of senders.values()) await send(MESSAGES_PER_SECOND);
  const quiet = async (server) => ({ samples: await senders.get(server).send(count), count });
  report('stream-quiet', await takeTurns(servers, schedule.turns, { measureSlice: quiet }));
  // Without `count`, because the CPU time would include messages and deltas.
  const besideStreams = async (server) => {
    let samples = [];
    await many.get(server).streamDuring(async () => {
      samples = await senders.get(server).send(count);
    });
    return { samples };
  };
  report('stream-acks', await takeTurns(servers, schedule.turns, { measureSlice: besideStreams }));
  for (const opened of [single, many, senders]) {
    for (const { close } of opened.values()) close();
  }
}
