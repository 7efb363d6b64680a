/**
 * Twenty namespaces on one hub. Nineteen are quiet: a CLI, a web client, five messages a second. One sends as fast as its
 * acks come. The runtime on one machine runs all of them on one thread, so this is the worst that a neighbour can do.
 */

import { latencies, sleep, until } from '../lib/measure.mjs';
import { agentMessage, indexOf } from '../lib/messages.mjs';
import { subscribe } from '../lib/subscriber.mjs';

const QUIET = 19;
const PER_SECOND = 5;
/** Messages of one noisy CLI that have no ack yet. */
const OUTSTANDING = 50;
const NOISY_CLIS = 4;

export const rows = [
  { id: 'tenants-alone', work: '19 quiet namespaces: message -> SSE', headline: 'p99' },
  {
    id: 'tenants-beside',
    work: 'the same beside a noisy one',
    headline: 'p99',
    target: { of: 'hub', most: 250, unit: ' ms' },
  },
  { id: 'tenants-noise', work: 'what the noisy one sends meanwhile', headline: 'perSecond' },
];

/** A namespace of its own with a CLI and a web client; `say` sends a message, `samples` has the times on the way. */
async function tenant(hub, name, problem) {
  const side = await hub.inNamespace(name);
  const session = await side.openSession('quiet');
  const socket = await side.connectCli(session);
  const sent = [];
  const own = { samples: [], seen: 0, sent };
  const listener = (event, at) => {
    if (event.type !== 'message-received') return;
    if (event.sessionId !== session.id) problem(`${name} heard of another namespace's session`);
    const index = indexOf(event.message.content);
    if (index !== own.seen) problem(`${name} got message ${index} in place of ${own.seen}`);
    own.seen = index + 1;
    own.samples.push(at - sent[index]);
  };
  const unsubscribe = await subscribe(side.newConnection(), `/api/events?all=true&sessionId=${session.id}`, listener);
  own.say = () => {
    const index = sent.push(performance.now()) - 1;
    socket.emit('message', { sid: session.id, message: agentMessage(index) });
  };
  own.close = () => {
    unsubscribe();
    socket.close();
  };
  return own;
}

/** All tenants talk for so long; resolves to the times on the way of all their messages. */
async function talk(tenants, seconds, problem) {
  for (const { samples } of tenants) samples.length = 0;
  for (let n = 0; n < seconds * PER_SECOND; n += 1) {
    for (const { say } of tenants) {
      say();
      await sleep(1000 / PER_SECOND / tenants.length);
    }
  }
  const arrived = () => tenants.every(({ seen, sent }) => seen === sent.length);
  await until('the quiet namespaces to hear their messages', async () => arrived()).catch((error) => problem(error.message));
  return tenants.flatMap(({ samples }) => samples);
}

/** Sends without a pause; `stop` resolves to the messages a second that were acknowledged. */
async function noise(hub) {
  const side = await hub.inNamespace('noisy');
  const sockets = [];
  let acknowledged = 0;
  let on = true;
  const start = performance.now();
  for (let cli = 0; cli < NOISY_CLIS; cli += 1) {
    const session = await side.openSession(`noisy-${cli}`);
    const socket = await side.connectCli(session);
    const next = () => {
      if (!on) return;
      socket.emit('message', { sid: session.id, message: agentMessage(0) }, () => {
        acknowledged += 1;
        next();
      });
    };
    for (let n = 0; n < OUTSTANDING; n += 1) next();
    sockets.push(socket);
  }
  return () => {
    on = false;
    const perSecond = acknowledged / ((performance.now() - start) / 1000);
    for (const socket of sockets) socket.close();
    return perSecond;
  };
}

export async function run({ sides, quick, report, problem }) {
  const hub = sides.find(({ name }) => name === 'hub');
  if (!hub) return;
  const seconds = quick ? 4 : 20;
  const tenants = [];
  for (let n = 0; n < QUIET; n += 1) tenants.push(await tenant(hub, `quiet-${n}`, problem));
  report('tenants-alone', { hub: latencies(await talk(tenants, seconds, problem)) });
  const stop = await noise(hub);
  report('tenants-beside', { hub: latencies(await talk(tenants, seconds, problem)) });
  report('tenants-noise', { hub: { perSecond: stop() } });
  for (const { close } of tenants) close();
}
