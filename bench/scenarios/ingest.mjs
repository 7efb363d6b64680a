/** CLIs emit all their messages at once. The time ends with the last ack. Afterwards the stored messages are read and checked. */

import { takeTurns } from '../lib/measure.mjs';
import { emitAll, findStorageErrors } from '../lib/messages.mjs';

/** Limit on the rounds, because a slice takes one or two seconds, longer than in other scenarios. */
const MAX_ROUNDS = 4;

const WORK = 'ingest of 1 KB messages';

export const rows = [
  {
    id: 'ingest-1x5000',
    work: `${WORK}, 1 CLI x 5,000`,
    headline: 'perSecond',
    target: { of: 'hub', least: 6000, unit: '/s' },
    hubA: '4,630/s',
    hubB: '2,790/s',
  },
  {
    id: 'ingest-20x500',
    work: `${WORK}, 20 CLIs x 500`,
    headline: 'perSecond',
    target: { of: 'hub', least: 6000, unit: '/s' },
    hubA: '5,190/s',
    hubB: '2,990/s',
  },
];

/** Opens new sessions, each with a CLI. */
async function connect(side, label, clis) {
  const sessions = await side.openSessions(Array.from({ length: clis }, (_, cli) => `${label}-${cli}`));
  const sockets = await Promise.all(sessions.map((session) => side.connectCli(session)));
  return { sessions, sockets, acks: [] };
}

/** Sends the messages of all CLIs at once. Resolves after the last ack. */
async function sendBurst(group, count) {
  const start = performance.now();
  group.acks = await Promise.all(group.sockets.map((socket, cli) => emitAll(socket, group.sessions[cli], count)));
  return { count: group.sockets.length * count, seconds: (performance.now() - start) / 1000 };
}

/** Compares the stored messages with their acks. */
async function checkStored(side, label, { sessions, sockets, acks }, reportProblem) {
  for (const [cli, session] of sessions.entries()) {
    for (const error of findStorageErrors(await side.readAllMessages(session), acks[cli])) reportProblem(`${label}: ${error}`);
  }
  for (const socket of sockets) socket.close();
}

export async function run({ sides, pace, report, reportProblem }) {
  const measure = (id, clis, count, rounds) =>
    takeTurns(sides, Math.min(rounds, MAX_ROUNDS), {
      prepare: (side, turn) => connect(side, `${id}-${turn}`, clis),
      slice: (_side, group) => sendBurst(group, count),
      finish: (side, group, turn) => checkStored(side, `${id}-${turn}`, group, reportProblem),
    });
  await measure('warm-up', 2, 300, 1);
  report('ingest-1x5000', await measure('ingest-1x5000', 1, 5000, pace.rounds));
  report('ingest-20x500', await measure('ingest-20x500', 20, 500, pace.rounds));
}
