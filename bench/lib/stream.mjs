/** A session whose agent streams: ten deltas a second, each of some words, with a web client. */

import { waitUntil } from './measure.mjs';
import { subscribe } from './subscriber.mjs';

const INTERVAL_MS = 100;
const WORDS = 'which is what the test shows, ';
/** The number of deltas after which a new message begins. */
const DELTAS_OF_MESSAGE = 100;

/**
 * Subscribes a web client to a session and starts to stream. Adds the latency of each delta to the samples, in
 * milliseconds. Resolves to a function that stops it, and reports a problem if a delta did not arrive or not in order.
 */
export async function startStream(side, socket, session, samples, reportProblem) {
  const sent = [];
  let received = 0;
  const close = await subscribe(side.newConnection(), side.paths(session).events, (event, at) => {
    if (event.type !== 'message-delta') return;
    const index = Number(event.id) * DELTAS_OF_MESSAGE + event.offset / WORDS.length;
    if (index !== received) reportProblem(`session ${session.id}: delta ${index} arrived instead of ${received}`);
    received = index + 1;
    samples.push(at - sent[index]);
  });
  const timer = setInterval(() => {
    const index = sent.push(performance.now()) - 1;
    const [id, position] = [Math.floor(index / DELTAS_OF_MESSAGE), index % DELTAS_OF_MESSAGE];
    socket.emit('message-delta', { sid: session.id, id: String(id), text: WORDS, offset: position * WORDS.length });
  }, INTERVAL_MS);
  return async () => {
    clearInterval(timer);
    await waitUntil('the last delta', async () => received === sent.length).catch(() => reportProblem(`session ${session.id}: ${received} of ${sent.length} deltas arrived`));
    close();
  };
}
