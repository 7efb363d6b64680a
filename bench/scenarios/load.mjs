/**
 * A full namespace for a minute: 1,000 CLIs that say every two seconds that they are alive, 200 web clients that watch
 * the list and a session each (half over SSE, half over WebSocket), 200 messages a second. The hub alone: what counts
 * is that nothing is lost, and that memory does not grow.
 */

import { expectOk } from '../lib/http.mjs';
import { inLanes, latencies, median, sleep, until } from '../lib/measure.mjs';
import { agentMessage, faultsOf, indexOf } from '../lib/messages.mjs';
import { processorSeconds, residentMegabytes } from '../lib/processes.mjs';
import { subscribe, subscribeSocket } from '../lib/subscriber.mjs';

const CLIS = 1000;
const WATCHERS = 200;
const PER_SECOND = 200;
const ALIVE_EVERY = 2000;

export const rows = [
  {
    id: 'load-latency',
    work: 'full namespace, 200 messages/s: message -> web client',
    headline: 'p99',
    target: { of: 'hub', most: 250, unit: ' ms' },
  },
  { id: 'load-acks', work: 'full namespace, 200 messages/s: message -> ack', headline: 'p99' },
  { id: 'load-processor', work: 'full namespace: processor', headline: 'percent' },
  { id: 'load-memory', work: 'full namespace: resident memory at the end', headline: 'megabytes' },
  {
    id: 'load-growth',
    work: 'full namespace: growth of memory over the last half',
    headline: 'percent',
    target: { of: 'hub', most: 5, unit: ' %' },
  },
];

/** A web client of `session`; `watcher.seen` is how many of its messages came, each once and in order. */
async function watch(side, session, number, samples, problem) {
  const watcher = { seen: 0, sent: [] };
  const listener = (event, at) => {
    if (event.type !== 'message-received') return;
    const index = indexOf(event.message.content);
    if (index !== watcher.seen) problem(`web client ${number} got message ${index} in place of ${watcher.seen}`);
    watcher.seen = index + 1;
    samples.push(at - watcher.sent[index]);
  };
  const open = number % 2 === 0 ? subscribe : subscribeSocket;
  watcher.close = await open(side.newConnection(), `/api/events?all=true&sessionId=${session.id}`, listener);
  return watcher;
}

async function allActive(side) {
  const connection = side.newConnection();
  const answer = await connection.send(connection.get('/api/sessions'));
  connection.close();
  return expectOk(answer, 'GET sessions').json().sessions.every(({ active }) => active);
}

/** Calls `act(n)` for n = 0, 1, 2 ... so that `perSecond` of them happen each second, until `stop` is called. */
function steadily(perSecond, act) {
  const start = performance.now();
  let done = 0;
  const timer = setInterval(() => {
    const due = ((performance.now() - start) / 1000) * perSecond;
    for (; done < due; done += 1) act(done);
  }, 10);
  return () => clearInterval(timer);
}

/** Growth in percent from the third quarter of the samples to the last, by their medians: one collection is no trend. */
function growth(samples) {
  const quarter = Math.floor(samples.length / 4);
  const third = median(samples.slice(2 * quarter, 3 * quarter));
  return (median(samples.slice(3 * quarter)) / third - 1) * 100;
}

export async function run({ sides, quick, report, note, problem }) {
  const side = sides.find(({ name }) => name === 'hub');
  if (!side) return;
  const seconds = quick ? 10 : 60;
  const sessions = await side.openSessions(Array.from({ length: CLIS }, (_, index) => `load-${index}`));
  const sockets = new Array(CLIS);
  await inLanes([...sessions.entries()], 32, async ([index, session]) => {
    sockets[index] = await side.connectCli(session);
  });
  const samples = [];
  const watchers = new Array(WATCHERS);
  await inLanes([...watchers.keys()], 16, async (number) => {
    watchers[number] = await watch(side, sessions[number], number, samples, problem);
  });
  const stopAlive = steadily((CLIS * 1000) / ALIVE_EVERY, (n) => side.keepAlive(sockets[n % CLIS], sessions[n % CLIS]));
  // The first round makes every session active, which is a transition and written; the rounds after it are the steady state.
  await until('every session to be active', () => allActive(side));

  const acks = watchers.map(() => []);
  const ackSamples = [];
  const memory = [];
  const began = { at: performance.now(), used: processorSeconds(side.pid) };
  const stopMessages = steadily(PER_SECOND, (n) => {
    const number = n % WATCHERS;
    const { sent } = watchers[number];
    const index = sent.push(performance.now()) - 1;
    const message = { sid: sessions[number].id, message: agentMessage(index), localId: `m-${index}` };
    sockets[number].emit('message', message, (ack) => {
      if (!ack?.ok) problem(`message ${index} of session ${number} was refused: ${JSON.stringify(ack)}`);
      acks[number][index] = ack;
      ackSamples.push(performance.now() - sent[index]);
    });
  });
  const stopMemory = steadily(2, () => memory.push(residentMegabytes(side.pid)));
  await sleep(seconds * 1000);
  stopMessages();
  stopMemory();
  const percent = ((processorSeconds(side.pid) - began.used) / ((performance.now() - began.at) / 1000)) * 100;
  const all = watchers.reduce((sum, { sent }) => sum + sent.length, 0);
  await until('the last message to reach its web client', async () => watchers.every(({ seen, sent }) => seen === sent.length)).catch(() =>
    problem(`of ${all} messages the web clients saw ${watchers.reduce((sum, { seen }) => sum + seen, 0)}`),
  );
  stopAlive();
  await inLanes([...watchers.keys()], 8, async (number) => {
    if (acks[number].length !== watchers[number].sent.length) problem(`session ${number} waits for acks`);
    for (const fault of faultsOf(await side.readBack(sessions[number]), acks[number])) problem(`session ${number}: ${fault}`);
  });
  const gone = sockets.filter(({ connected }) => !connected).length;
  if (gone > 0) problem(`${gone} of ${CLIS} CLIs lost their connection`);
  for (const { close } of watchers) close();
  for (const socket of sockets) socket.close();
  note(`${all} messages in ${seconds} s, all there once and in order, at the web clients and in what is read back`);
  report('load-latency', { hub: latencies(samples) });
  report('load-acks', { hub: latencies(ackSamples) });
  report('load-processor', { hub: { percent } });
  report('load-memory', { hub: { megabytes: memory.at(-1) } });
  report('load-growth', { hub: { percent: growth(memory) } });
}
