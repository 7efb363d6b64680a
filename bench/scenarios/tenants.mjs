/**
 * 20 namespaces of one hub. 19 namespaces are quiet: a CLI, a web client, five messages per second. The noisy namespace sends the next
 * message at each ack. The local runtime runs all namespaces on one thread, so this is the worst case of a noisy neighbour.
 */

import { latencyFigures } from '../../scripts/lib/statistics.mjs';
import { sleep, waitUntil } from '../lib/measure.mjs';
import { agentMessage, messageIndex } from '../lib/messages.mjs';
import { subscribe } from '../lib/subscriber.mjs';

const QUIET_NAMESPACES = 19;
/** Messages per second of a quiet namespace. */
const PER_SECOND = 5;
/** Unacknowledged messages per noisy CLI. */
const IN_FLIGHT = 50;
const NOISY_CLIS = 4;

export const rows = [
  { id: 'tenants-alone', work: '19 quiet namespaces: message -> SSE', mainFigure: 'p99' },
  {
    id: 'tenants-beside',
    work: 'the same with a noisy namespace',
    mainFigure: 'p99',
    target: { of: 'hub', most: 100, unit: ' ms' },
  },
  { id: 'tenants-noise', work: 'messages of the noisy namespace', mainFigure: 'perSecond' },
];

/**
 * Connects a CLI and a web client to a namespace. Resolves to an object: its `send` sends a message, and its `samples` collects the
 * latencies.
 */
async function connectTenant(hub, name, reportProblem) {
  const namespaceHub = await hub.inNamespace(name);
  const session = await namespaceHub.openSession('quiet');
  const socket = await namespaceHub.connectCli(session);
  /** The time of each message, by its index. */
  const sentAt = [];
  const tenant = { samples: [], receivedCount: 0, sentAt };
  const listener = (event, at) => {
    if (event.type !== 'message-received') return;
    if (event.sessionId !== session.id) reportProblem(`${name} received an event of another namespace`);
    const index = messageIndex(event.message.content);
    if (index !== tenant.receivedCount) reportProblem(`${name} got message ${index} instead of ${tenant.receivedCount}`);
    tenant.receivedCount = index + 1;
    tenant.samples.push(at - sentAt[index]);
  };
  const unsubscribe = await subscribe(namespaceHub.newConnection(), `/api/events?all=true&sessionId=${session.id}`, listener);
  tenant.send = () => {
    const index = sentAt.push(performance.now()) - 1;
    socket.emit('message', { sid: session.id, message: agentMessage(index) });
  };
  tenant.close = () => {
    unsubscribe();
    socket.close();
  };
  return tenant;
}

/** Sends messages of all quiet namespaces at a constant rate. Resolves to the latencies. */
async function sendSteadily(tenants, seconds, reportProblem) {
  for (const { samples } of tenants) samples.length = 0;
  for (let n = 0; n < seconds * PER_SECOND; n += 1) {
    for (const { send } of tenants) {
      send();
      await sleep(1000 / PER_SECOND / tenants.length);
    }
  }
  const arrived = () => tenants.every(({ receivedCount, sentAt }) => receivedCount === sentAt.length);
  await waitUntil('the quiet namespaces to receive their messages', async () => arrived()).catch((error) => reportProblem(error.message));
  return tenants.flatMap(({ samples }) => samples);
}

/** Starts the noisy namespace. Resolves to a function that stops the namespace and returns the acknowledged messages per second. */
async function startNoise(hub) {
  const namespaceHub = await hub.inNamespace('noisy');
  const sockets = [];
  let acknowledged = 0;
  let isRunning = true;
  const start = performance.now();
  for (let cli = 0; cli < NOISY_CLIS; cli += 1) {
    const session = await namespaceHub.openSession(`noisy-${cli}`);
    const socket = await namespaceHub.connectCli(session);
    const next = () => {
      if (!isRunning) return;
      socket.emit('message', { sid: session.id, message: agentMessage(0) }, () => {
        acknowledged += 1;
        next();
      });
    };
    for (let n = 0; n < IN_FLIGHT; n += 1) next();
    sockets.push(socket);
  }
  return () => {
    isRunning = false;
    const perSecond = acknowledged / ((performance.now() - start) / 1000);
    for (const socket of sockets) socket.close();
    return perSecond;
  };
}

export async function run({ servers, quick, report, reportProblem }) {
  const hub = servers.find(({ kind }) => kind === 'hub');
  if (!hub) return;
  const seconds = quick ? 4 : 20;
  const tenants = [];
  for (let n = 0; n < QUIET_NAMESPACES; n += 1) tenants.push(await connectTenant(hub, `quiet-${n}`, reportProblem));
  report('tenants-alone', { hub: latencyFigures(await sendSteadily(tenants, seconds, reportProblem)) });
  const stop = await startNoise(hub);
  report('tenants-beside', { hub: latencyFigures(await sendSteadily(tenants, seconds, reportProblem)) });
  report('tenants-noise', { hub: { perSecond: stop() } });
  for (const { close } of tenants) close();
}
