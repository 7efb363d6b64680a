/**
 * A session that receives 200,000 messages with local ids from one CLI, which sends the next message at each ack. Checks that the rate does
 * not fall when the hub no longer has all local ids in memory. `tenants` shows that quiet namespaces do not wait for such a session.
 */

import { flood } from '../lib/messages.mjs';

const MESSAGES = 200_000;
/** Enough messages that the hub has all local ids in memory in the first quarter, but not in the last quarter. */
const QUICK_MESSAGES = 24_000;
const IN_FLIGHT = 100;

const WORK = 'messages with local ids into one session';

export const rows = [
  { id: 'long-session-last', work: `${WORK}, the last quarter of 200,000`, mainFigure: 'perSecond' },
  {
    id: 'long-session-ratio',
    work: `${WORK}: rate of the last quarter / first`,
    mainFigure: 'percent',
    target: { of: 'hub', least: 70, unit: ' %' },
  },
];

export async function run({ servers, quick, report, reportProblem }) {
  const server = servers.find(({ kind }) => kind === 'hub');
  const count = quick ? QUICK_MESSAGES : MESSAGES;
  const session = await server.openSession('long');
  const socket = await server.connectCli(session);
  const quarterTimes = [performance.now()];
  const onAck = (acked) => acked % (count / 4) === 0 && quarterTimes.push(performance.now());
  const sent = await flood(socket, session, { inFlight: IN_FLIGHT, isDone: (sentCount) => sentCount === count, onAck });
  const misnumbered = sent.findIndex(({ seq }, index) => seq !== index + 1);
  if (misnumbered !== -1) reportProblem(`message ${misnumbered} got the seq ${sent[misnumbered].seq}`);
  socket.close();
  const [first, last] = [quarterTimes[1] - quarterTimes[0], quarterTimes[4] - quarterTimes[3]];
  report('long-session-last', { hub: { perSecond: (count / 4 / last) * 1000 } });
  report('long-session-ratio', { hub: { percent: (first / last) * 100 } });
}
