/** Requests the list of a namespace with 1,000 sessions. On the floor, the baseline worker, the object returns a text of the same size. */

import { compare } from '../lib/measure.mjs';

const SESSIONS = 1000;

export const rows = [
  { id: 'list-c1', work: 'GET 1,000 sessions, 1 concurrent', mainFigure: 'perSecond', target: { of: 'hub', least: 600, unit: '/s' } },
  { id: 'list-c16', work: 'GET 1,000 sessions, 16 concurrent', mainFigure: 'perSecond' },
];

function readers(server, bytes, concurrency) {
  return Array.from({ length: concurrency }, () => {
    const connection = server.newConnection();
    const request = connection.get(server.paths({ id: '' }).list(bytes));
    return async () => {
      const answer = await connection.send(request);
      if (answer.status !== 200 || answer.bytes < bytes * 0.98) {
        throw new Error(`a list of the ${server.name} returned status ${answer.status} with ${answer.bytes} bytes, not about ${bytes}`);
      }
    };
  });
}

export async function run({ servers, schedule, report, addNote }) {
  let bytes = 0;
  for (const server of servers.filter(({ kind }) => kind === 'hub')) {
    await server.openSessions(Array.from({ length: SESSIONS }, (_, index) => `list-${index}`));
    const connection = server.newConnection();
    const answer = await connection.send(connection.get('/api/sessions'));
    const { sessions } = answer.json();
    if (sessions.length !== SESSIONS) throw new Error(`the list has ${sessions.length} sessions, not ${SESSIONS}`);
    bytes = answer.bytes;
    connection.close();
  }
  addNote(`the list of 1,000 sessions is ${Math.round(bytes / 1000)} KB`);
  for (const concurrency of [1, 16]) {
    const figures = await compare(servers, (server) => readers(server, bytes, concurrency), schedule);
    report(`list-c${concurrency}`, figures);
  }
}
