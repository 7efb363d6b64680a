/** A page of 50 of 5,000 messages. Consecutive requests read different pages. */

import { compare } from '../lib/measure.mjs';
import { emitAll } from '../lib/messages.mjs';

const MESSAGES = 5000;
const LIMIT = 50;

export const rows = [
  {
    id: 'page-c1',
    work: 'GET page of 50 of 5,000 messages, at 1',
    headline: 'perSecond',
    target: { of: 'hub', least: 1300, unit: '/s' },
    cpuTarget: 1.5,
    hubA: '1,261/s',
    hubB: '297/s',
  },
  {
    id: 'page-c32',
    work: 'GET page of 50 of 5,000 messages, at 32',
    headline: 'perSecond',
    cpuTarget: 1.5,
    hubA: '2,354/s',
    hubB: '338/s',
  },
];

function readers(side, session, concurrency) {
  const connections = Array.from({ length: concurrency }, () => side.newConnection());
  const pages = MESSAGES / LIMIT;
  const requests = Array.from({ length: pages }, (_, page) => connections[0].get(side.paths(session).page(MESSAGES + 1 - page * LIMIT)));
  return connections.map((connection, reader) => {
    let turn = reader * 7;
    return async () => {
      const answer = await connection.send(requests[turn++ % pages]);
      // Fails if the page has fewer than 50 messages of 1 KB.
      if (answer.status !== 200 || answer.bytes < LIMIT * 1000) {
        throw new Error(`a page of the ${side.name} returned status ${answer.status} with ${answer.bytes} bytes`);
      }
    };
  });
}

export async function run({ sides, pace, report }) {
  const sessions = new Map();
  for (const side of sides) {
    const session = await side.openSession('page');
    const socket = await side.connectCli(session);
    await emitAll(socket, session, MESSAGES);
    socket.close();
    sessions.set(side, session);
  }
  for (const concurrency of [1, 32]) {
    report(`page-c${concurrency}`, await compare(sides, (side) => readers(side, sessions.get(side), concurrency), pace));
  }
}
