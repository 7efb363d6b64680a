/**
 * Live text: the time from a CLI's `message-delta` to a web client of its session, and the time to the acknowledgement of a
 * `message` while 20 other sessions stream.
 */

import { latencies, sleep, waitUntil } from '../lib/measure.mjs';
import { agentMessage } from '../lib/messages.mjs';
import { startStream } from '../lib/stream.mjs';

const SESSIONS = 20;
const MESSAGES_PER_SECOND = 50;

export const rows = [
  { id: 'stream-1', work: 'message-delta -> SSE at 10/s, 1 session', headline: 'p50' },
  { id: 'stream-20', work: 'message-delta -> SSE at 10/s each, 20 sessions', headline: 'p50' },
  { id: 'stream-quiet', work: 'message -> ack at 50/s, nothing streams', headline: 'p50' },
  { id: 'stream-acks', work: 'message -> ack at 50/s, 20 sessions stream', headline: 'p50', target: { of: 'hub', most: 10, unit: ' ms' } },
];

/** Resolves to the latencies of the acknowledgements of a CLI's messages, in milliseconds. */
async function measureAcks(side, socket, session, count, reportProblem) {
  const samples = [];
  const start = performance.now() + 20;
  for (let index = 0; index < count; index += 1) {
    await sleep(Math.max(0, start + (index * 1000) / MESSAGES_PER_SECOND - performance.now()));
    const sent = performance.now();
    socket.emit('message', { sid: session.id, message: agentMessage(index) }, (ack) => {
      if (ack?.ok) samples.push(performance.now() - sent);
      else reportProblem(`message ${index} was refused: ${JSON.stringify(ack)}`);
    });
  }
  await waitUntil('the last acknowledgement', async () => samples.length === count).catch(() => reportProblem(`${count - samples.length} of ${count} messages have no ack`));
  return samples;
}

/** Streams in a number of `sessions` for some `seconds`. Resolves to the latencies of the deltas, in milliseconds. */
async function measureDeltas(side, label, sessions, seconds, reportProblem, act = () => sleep(seconds * 1000)) {
  const samples = [];
  const streams = [];
  for (let number = 0; number < sessions; number += 1) {
    const session = await side.openSession(`${label}-${number}`);
    const socket = await side.connectCli(session);
    streams.push({ socket, stop: await startStream(side, socket, session, samples, reportProblem) });
  }
  await act();
  await Promise.all(streams.map(({ stop }) => stop()));
  for (const { socket } of streams) socket.close();
  return samples;
}

export async function run({ sides, quick, report, reportProblem }) {
  const seconds = quick ? 2 : 6;
  const single = {};
  for (const side of sides) single[side.name] = latencies(await measureDeltas(side, 'stream-1', 1, seconds, reportProblem));
  report('stream-1', single);
  const hub = sides.find(({ name }) => name === 'hub');
  if (!hub) return;
  const session = await hub.openSession('stream-acks');
  const socket = await hub.connectCli(session);
  const count = MESSAGES_PER_SECOND * seconds;
  await measureAcks(hub, socket, session, MESSAGES_PER_SECOND, reportProblem);
  report('stream-quiet', { hub: latencies(await measureAcks(hub, socket, session, count, reportProblem)) });
  const acks = async () => {
    report('stream-acks', { hub: latencies(await measureAcks(hub, socket, session, count, reportProblem)) });
  };
  report('stream-20', { hub: latencies(await measureDeltas(hub, 'stream-20', SESSIONS, seconds, reportProblem, acks)) });
  socket.close();
}
