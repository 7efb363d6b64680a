/** Each CLI emits all its messages at once. The time ends with the last ack. Afterwards the stored messages are read and checked. */

import { takeTurns } from '../lib/measure.mjs';
import { emitAll, findStorageErrors } from '../lib/messages.mjs';

/** Limit on how often the servers alternate: here, the measurement of one server (a slice) takes one or two seconds. */
const MAX_TURNS = 4;

const WORK = 'ingest of 1 KB messages';

export const rows = [
  { id: 'ingest-1x5000', work: `${WORK}, 1 CLI x 5,000`, mainFigure: 'perSecond', target: { of: 'hub', least: 6000, unit: '/s' } },
  { id: 'ingest-20x500', work: `${WORK}, 20 CLIs x 500`, mainFigure: 'perSecond', target: { of: 'hub', least: 6000, unit: '/s' } },
];

/** Opens new sessions, each with a CLI. */
async function connect(server, label, clis) {
  const sessions = await server.openSessions(Array.from({ length: clis }, (_, cli) => `${label}-${cli}`));
  const sockets = await Promise.all(sessions.map((session) => server.connectCli(session)));
  return { sessions, sockets, acks: [] };
}

/** Sends the messages of all CLIs at once. Resolves after the last ack. */
async function sendBurst(group, count) {
  const start = performance.now();
  group.acks = await Promise.all(group.sockets.map((socket, cli) => emitAll(socket, group.sessions[cli], count)));
  return { count: group.sockets.length * count, seconds: (performance.now() - start) / 1000 };
}

/** Compares the stored messages with their acks. */
async function checkStored(server, label, { sessions, sockets, acks }, reportProblem) {
  for (const [cli, session] of sessions.entries()) {
    for (const error of findStorageErrors(await server.readAllMessages(session), acks[cli])) reportProblem(`${label}: ${error}`);
  }
  for (const socket of sockets) socket.close();
}

export async function run({ servers, schedule, report, reportProblem }) {
  const measure = (id, clis, count, turns) =>
    takeTurns(servers, Math.min(turns, MAX_TURNS), {
      prepare: (server, turn) => connect(server, `${id}-${turn}`, clis),
      measureSlice: (_server, group) => sendBurst(group, count),
      finish: (server, group, turn) => checkStored(server, `${id}-${turn}`, group, reportProblem),
    });
  await measure('warm-up', 2, 300, 1);
  report('ingest-1x5000', await measure('ingest-1x5000', 1, 5000, schedule.turns));
  report('ingest-20x500', await measure('ingest-20x500', 20, 500, schedule.turns));
}
