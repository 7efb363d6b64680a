/** A session whose agent streams live text to a web client: ten deltas a second, each of some words. */

import { waitUntil } from './measure.mjs';
import { subscribe } from './subscriber.mjs';

const INTERVAL_MS = 100;
const WORDS = 'which is what the test shows, ';
/** The number of deltas after which a new message begins. */
const DELTAS_PER_MESSAGE = 100;

/**
 * Subscribes a web client to a session. `socket`: of the session's CLI, which streams. Reports deltas that are lost or not in order.
 * Resolves to:
 * - `start(samples, phase)`: starts to stream, and adds the latency of each delta to the samples, in milliseconds. `phase`: the wait before
 *   the first delta, as a fraction of the interval (0 to 1), so that several streams do not send at once.
 * - `stop()`: stops to stream. Resolves when all deltas have arrived.
 * - `close()`: closes the subscription
 */
export async function openStream(server, socket, session, reportProblem) {
  const sentTimes = [];
  let samples = [];
  let receivedCount = 0;
  let timer = null;
  const close = await subscribe(server.newConnection(), server.paths(session).events, (event, at) => {
    if (event.type !== 'message-delta') return;
    const index = Number(event.id) * DELTAS_PER_MESSAGE + event.offset / WORDS.length;
    if (index !== receivedCount) reportProblem(`session ${session.id}: delta ${index} arrived instead of ${receivedCount}`);
    receivedCount = index + 1;
    samples.push(at - sentTimes[index]);
  });
  const send = () => {
    const index = sentTimes.push(performance.now()) - 1;
    const [id, position] = [Math.floor(index / DELTAS_PER_MESSAGE), index % DELTAS_PER_MESSAGE];
    socket.emit('message-delta', { sid: session.id, id: String(id), text: WORDS, offset: position * WORDS.length });
  };
  return {
    start(newSamples, phase) {
      samples = newSamples;
      timer = setTimeout(() => {
        timer = setInterval(send, INTERVAL_MS);
      }, phase * INTERVAL_MS);
    },
    async stop() {
      clearInterval(timer);
      await waitUntil('the last delta', async () => receivedCount === sentTimes.length).catch(() =>
        reportProblem(`session ${session.id}: ${receivedCount} of ${sentTimes.length} deltas arrived`),
      );
    },
    close,
  };
}
