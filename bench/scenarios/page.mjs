/** Requests pages of 50 messages from a session with 5,000 messages: the newest page, and pages spread over the session. */

import { compare } from '../lib/measure.mjs';
import { emitAll } from '../lib/messages.mjs';

const MESSAGES = 5000;
const PAGE_MESSAGES = 50;
const CONCURRENCIES = [1, 32];

/** The number of different pages that the requests of a row read in turns. */
const PAGES = { newest: 1, spread: MESSAGES / PAGE_MESSAGES };

export const rows = Object.keys(PAGES).flatMap((name) =>
  CONCURRENCIES.map((concurrency) => ({
    id: `page-${name}-${concurrency}`,
    work: `GET page of 50 of 5,000 messages, ${name}, ${concurrency} concurrent`,
    mainFigure: 'perSecond',
    maxCpuRatio: 1.5,
  })),
);

function makeReaders(server, session, pages, concurrency) {
  const connections = Array.from({ length: concurrency }, () => server.newConnection());
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
  for (const [name, pages] of Object.entries(PAGES)) {
    for (const concurrency of CONCURRENCIES) {
      const newReaders = (server) => makeReaders(server, sessions.get(server), pages, concurrency);
      report(`page-${name}-${concurrency}`, await compare(servers, newReaders, schedule));
    }
  }
}
