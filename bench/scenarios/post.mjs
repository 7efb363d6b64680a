/** A web client's message to a CLI: the time from the POST to the CLI's `update` event. Checks that the POST succeeds. */

import { compare } from '../lib/measure.mjs';
import { expectOk } from '../lib/http.mjs';

export const rows = [
  { id: 'post-c1', work: 'POST message -> CLI `update`, 1 concurrent', mainFigure: 'p50', maxCpuRatio: 1.4 },
  { id: 'post-c16', work: 'POST message -> CLI `update`, 16 concurrent', mainFigure: 'perSecond', maxCpuRatio: 1.8 },
];

const TEXT = 'please look at the failing test and tell me what is wrong with it';

const UPDATE_TIMEOUT_MS = 10_000;

/** Listens to a CLI's updates. Returns `waitForArrival(localId)`, which resolves to the time at which the message arrives at the CLI. */
function listenForArrivals(socket) {
  const resolvers = new Map();
  socket.on('update', ({ body }) => {
    const at = performance.now();
    if (body.t === 'new-message') resolvers.get(body.message.localId)?.(at);
    if (body.t === 'new-message') resolvers.delete(body.message.localId);
  });
  return (localId) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`the CLI did not receive the message ${localId}`)), UPDATE_TIMEOUT_MS);
      resolvers.set(localId, (at) => {
        clearTimeout(timer);
        resolve(at);
      });
    });
}

let lastNumber = 0;

function senders(server, { path, waitForArrival }, concurrency) {
  return Array.from({ length: concurrency }, () => {
    const connection = server.newConnection();
    return async () => {
      const localId = `post-${(lastNumber += 1)}`;
      const request = connection.withBody('POST', path, { text: TEXT, localId });
      const arrived = waitForArrival(localId);
      const start = performance.now();
      const [at, answer] = await Promise.all([arrived, connection.send(request)]);
      expectOk(answer, 'POST message');
      return at - start;
    };
  });
}

export async function run({ servers, schedule, report }) {
  const targets = new Map();
  for (const server of servers) {
    const session = await server.openSession('post');
    const socket = await server.connectCli(session);
    await server.activate(socket, session);
    // After 30 s without a keep-alive, the session would be inactive and accept no messages.
    const keepAliveTimer = setInterval(() => server.keepAlive(socket, session), 5000);
    targets.set(server, { path: server.paths(session).messages, waitForArrival: listenForArrivals(socket), socket, keepAliveTimer });
  }
  for (const concurrency of [1, 16]) {
    report(`post-c${concurrency}`, await compare(servers, (server) => senders(server, targets.get(server), concurrency), schedule));
  }
  for (const { socket, keepAliveTimer } of targets.values()) {
    clearInterval(keepAliveTimer);
    socket.close();
  }
}
