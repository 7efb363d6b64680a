/** CLIs that emit all their messages at once. The time is until the last ack; then the messages are read back. */

import { takeTurns } from '../lib/measure.mjs';
import { emitAll, findStorageErrors } from '../lib/messages.mjs';

/** A slice takes a second or two, longer than those of other scenarios. */
const MOST_ROUNDS = 4;

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

/** Opens new sessions with a CLI each. */
async function connect(side, label, clis) {
  const sessions = await side.openSessions(Array.from({ length: clis }, (_, cli) => `${label}-${cli}`));
  const sockets = await Promise.all(sessions.map((session) => side.connectCli(session)));
  return { sessions, sockets, acks: [] };
}

/** Sends the messages of all CLIs at once, until the last ack. */
async function burst(group, count) {
  const start = performance.now();
  group.acks = await Promise.all(group.sockets.map((socket, cli) => emitAll(socket, group.sessions[cli], count)));
  return { count: group.sockets.length * count, seconds: (performance.now() - start) / 1000 };
}

/** Compares the stored messages with their acks. */
async function check(side, label, { sessions, sockets, acks }, reportProblem) {
  for (const [cli, session] of sessions.entries()) {
    for (const error of findStorageErrors(await side.readBack(session), acks[cli])) reportProblem(`${label}: ${error}`);
  }
  for (const socket of sockets) socket.close();
}

export async function run({ sides, pace, report, reportProblem }) {
  const measure = (id, clis, count, rounds) =>
    takeTurns(sides, Math.min(rounds, MOST_ROUNDS), {
      prepare: (side, turn) => connect(side, `${id}-${turn}`, clis),
      slice: (_side, group) => burst(group, count),
      finish: (side, group, turn) => check(side, `${id}-${turn}`, group, reportProblem),
    });
  await measure('warm-up', 2, 300, 1);
  report('ingest-1x5000', await measure('ingest-1x5000', 1, 5000, pace.rounds));
  report('ingest-20x500', await measure('ingest-20x500', 20, 500, pace.rounds));
}
