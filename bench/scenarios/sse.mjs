/** The time from a CLI's `message` to the web clients of its session: 50 messages per second, with 1 and 50 web clients. */

import { latencies, sleep, waitUntil } from '../lib/measure.mjs';
import { agentMessage, indexOf } from '../lib/messages.mjs';
import { subscribe } from '../lib/subscriber.mjs';

const PER_SECOND = 50;

export const rows = [
  { id: 'sse-1', work: 'message -> SSE at 50/s, 1 subscriber', headline: 'p50', hubA: '0.92 / 2.4 ms', hubB: '1.4 / 4.1 ms' },
  { id: 'sse-50', work: 'message -> SSE at 50/s, 50 subscribers', headline: 'p50', hubA: '2.2 / 4.0 ms', hubB: '1.9 / 4.9 ms' },
];

/** Resolves to the latencies of all messages at all subscribers after the warm-up, in milliseconds. */
async function measureLatencies(side, label, subscribers, count, reportProblem) {
  const session = await side.openSession(label);
  const socket = await side.connectCli(session);
  const warmUp = PER_SECOND;
  const total = warmUp + count;
  const sent = new Float64Array(total);
  const samples = [];
  const receivedCounts = new Array(subscribers).fill(0);
  const closers = [];
  for (let watcher = 0; watcher < subscribers; watcher += 1) {
    const listener = (event, at) => {
      if (event.type !== 'message-received') return;
      const index = indexOf(event.message.content);
      if (index !== receivedCounts[watcher]) reportProblem(`${label}: subscriber ${watcher} got message ${index} instead of ${receivedCounts[watcher]}`);
      receivedCounts[watcher] = index + 1;
      if (index >= warmUp) samples.push(at - sent[index]);
    };
    closers.push(await subscribe(side.newConnection(), side.paths(session).events, listener));
  }
  const start = performance.now() + 20;
  for (let index = 0; index < total; index += 1) {
    await sleep(Math.max(0, start + (index * 1000) / PER_SECOND - performance.now()));
    sent[index] = performance.now();
    socket.emit('message', { sid: session.id, message: agentMessage(index) });
  }
  await waitUntil('the last message to reach every subscriber', async () => receivedCounts.every((next) => next === total)).catch(() =>
    reportProblem(`${label}: a subscriber received only ${Math.min(...receivedCounts)} of ${total} messages`),
  );
  for (const close of closers) close();
  socket.close();
  return samples;
}

export async function run({ sides, quick, report, reportProblem }) {
  const count = PER_SECOND * (quick ? 1 : 4);
  for (const subscribers of [1, 50]) {
    const figures = {};
    for (const side of sides) {
      figures[side.name] = latencies(await measureLatencies(side, `sse-${subscribers}`, subscribers, count, reportProblem));
    }
    report(`sse-${subscribers}`, figures);
  }
}
