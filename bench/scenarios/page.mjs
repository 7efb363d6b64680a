/** Requests pages of 50 messages from a session with 5,000 messages. Consecutive requests read different pages. */

import { compare } from '../lib/measure.mjs';
import { emitAll } from '../lib/messages.mjs';

const MESSAGES = 5000;
const PAGE_MESSAGES = 50;

export const rows = [
  {
    id: 'page-c1',
    work: 'GET page of 50 of 5,000 messages, 1 concurrent',
    mainFigure: 'perSecond',
    target: { of: 'hub', least: 1300, unit: '/s' },
    maxCpuRatio: 1.5,
    otherHubA: '1,261/s',
    otherHubB: '297/s',
  },
  {
    id: 'page-c32',
    work: 'GET page of 50 of 5,000 messages, 32 concurrent',
    mainFigure: 'perSecond',
    maxCpuRatio: 1.5,
    otherHubA: '2,354/s',
    otherHubB: '338/s',
  },
];

function makeReaders(server, session, concurrency) {
  const connections = Array.from({ length: concurrency }, () => server.newConnection());
  const pages = MESSAGES / PAGE_MESSAGES;
  const requests = Array.from({ length: pages }, (_, page) =>
    connections[0].get(server.paths(session).page(MESSAGES + 1 - page * PAGE_MESSAGES)),
  );
  return connections.map((connection, reader) => {
    let requestIndex = reader * 7;
    return async () => {
      const answer = await connection.send(requests[requestIndex++ % pages]);
      // Fails if the page has fewer than 50 messages of 1 KB.
      if (answer.status !== 200 || answer.bytes < PAGE_MESSAGES * 1000) {
        throw new Error(`a page of the ${server.name} returned status ${answer.status} with ${answer.bytes} bytes`);
      }
    };
  });
}

export async function run({ servers, schedule, report }) {
  const sessions = new Map();
  for (const server of servers) {
    const session = await server.openSession('page');
    const socket = await server.connectCli(session);
    await emitAll(socket, session, MESSAGES);
    socket.close();
    sessions.set(server, session);
  }
  for (const concurrency of [1, 32]) {
    report(`page-c${concurrency}`, await compare(servers, (server) => makeReaders(server, sessions.get(server), concurrency), schedule));
  }
}
