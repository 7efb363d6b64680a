/** The time from a CLI's `message` to the web clients of its session: 50 messages per second, with 1 and 50 web clients. */

import { takeTurns, waitForTurn, waitUntil } from '../lib/measure.mjs';
import { agentMessage, messageIndex } from '../lib/messages.mjs';
import { subscribe } from '../lib/subscriber.mjs';

const PER_SECOND = 50;

export const rows = [
  { id: 'sse-1', work: 'message -> SSE at 50/s, 1 subscriber', mainFigure: 'p50', otherHubA: '0.92 / 2.4 ms', otherHubB: '1.4 / 4.1 ms' },
  {
    id: 'sse-50',
    work: 'message -> SSE at 50/s, 50 subscribers',
    mainFigure: 'p50',
    target: { of: 'ratio', most: 1.15 },
    otherHubA: '2.2 / 4.0 ms',
    otherHubB: '1.9 / 4.9 ms',
  },
];

/** Opens a session with a CLI and subscribers. `send(count)` resolves to the latencies at all subscribers, in milliseconds. */
async function openFanOut(server, label, subscribers, reportProblem) {
  const session = await server.openSession(label);
  const socket = await server.connectCli(session);
  const sentTimes = [];
  let samples = [];
  const receivedCounts = new Array(subscribers).fill(0);
  const unsubscribers = [];
  for (let subscriber = 0; subscriber < subscribers; subscriber += 1) {
    const listener = (event, at) => {
      if (event.type !== 'message-received') return;
      const index = messageIndex(event.message.content);
      if (index !== receivedCounts[subscriber])
        reportProblem(`${label}: subscriber ${subscriber} got message ${index} instead of ${receivedCounts[subscriber]}`);
      receivedCounts[subscriber] = index + 1;
      samples.push(at - sentTimes[index]);
    };
    unsubscribers.push(await subscribe(server.newConnection(), server.paths(session).events, listener));
  }
  const send = async (count) => {
    samples = [];
    const start = performance.now() + 20;
    for (let index = 0; index < count; index += 1) {
      await waitForTurn(start, index, PER_SECOND);
      const number = sentTimes.push(performance.now()) - 1;
      socket.emit('message', { sid: session.id, message: agentMessage(number) });
    }
    await waitUntil('the last message to reach every subscriber', async () =>
      receivedCounts.every((count) => count === sentTimes.length),
    ).catch(() => reportProblem(`${label}: a subscriber received only ${Math.min(...receivedCounts)} of ${sentTimes.length} messages`));
    return samples;
  };
  const close = () => {
    for (const unsubscribe of unsubscribers) unsubscribe();
    socket.close();
  };
  return { send, close };
}

export async function run({ servers, schedule, report, reportProblem }) {
  const count = Math.round(PER_SECOND * 2 * schedule.seconds);
  for (const subscribers of [1, 50]) {
    const label = `sse-${subscribers}`;
    const fanOuts = new Map();
    for (const server of servers) {
      fanOuts.set(server, await openFanOut(server, label, subscribers, reportProblem));
      await fanOuts.get(server).send(PER_SECOND);
    }
    const measureSlice = async (server) => ({ samples: await fanOuts.get(server).send(count), count });
    report(label, await takeTurns(servers, schedule.turns, { measureSlice }));
    for (const { close } of fanOuts.values()) close();
  }
}
