/** CLIs that emit all their messages at once. The time is until the last ack; then the messages are read back. */

import { median } from '../lib/measure.mjs';
import { emitAll, findStorageErrors } from '../lib/messages.mjs';

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

/** Sends one burst on new sessions and sockets. Resolves to messages per second. */
async function burst(side, label, clis, count, reportProblem) {
  const sessions = await side.openSessions(Array.from({ length: clis }, (_, cli) => `${label}-${cli}`));
  const sockets = await Promise.all(sessions.map((session) => side.connectCli(session)));
  const start = performance.now();
  const acks = await Promise.all(sockets.map((socket, cli) => emitAll(socket, sessions[cli], count)));
  const seconds = (performance.now() - start) / 1000;
  for (const [cli, session] of sessions.entries()) {
    for (const error of findStorageErrors(await side.readBack(session), acks[cli])) reportProblem(`${label}: ${error}`);
  }
  for (const socket of sockets) socket.close();
  return (clis * count) / seconds;
}

export async function run({ sides, quick, report, reportProblem }) {
  const repeats = quick ? 1 : 3;
  for (const side of sides) await burst(side, 'warm-up', 2, 300, reportProblem);
  for (const [id, clis, count] of [['ingest-1x5000', 1, 5000], ['ingest-20x500', 20, 500]]) {
    const rates = Object.fromEntries(sides.map(({ name }) => [name, []]));
    for (let turn = 0; turn < repeats; turn += 1) {
      for (const side of sides) rates[side.name].push(await burst(side, `${id}-${turn}`, clis, count, reportProblem));
    }
    report(id, Object.fromEntries(sides.map(({ name }) => [name, { perSecond: median(rates[name]) }])));
  }
}
