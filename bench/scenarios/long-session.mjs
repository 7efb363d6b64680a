/**
 * A session that receives 200,000 messages with local ids from one CLI, which sends the next message at each ack. Checks that the rate does
 * not fall when the hub no longer has all local ids in memory. `tenants` shows that quiet namespaces do not wait for such a session.
 */

import { flood } from '../lib/messages.mjs';
import { cpuSeconds } from '../lib/processes.mjs';

const MESSAGES = 200_000;
/** Enough messages that the hub has all local ids in memory in the first quarter, but not in the last quarter. */
const QUICK_MESSAGES = 24_000;
const IN_FLIGHT = 100;

const WORK = 'messages with local ids into one session';

export const rows = [
  { id: 'long-session-first', work: `${WORK}, the first quarter of 200,000`, mainFigure: 'perSecond' },
  { id: 'long-session-last', work: `${WORK}, the last quarter`, mainFigure: 'perSecond' },
  {
    id: 'long-session-ratio',
    work: `${WORK}: rate of the last quarter / first`,
    mainFigure: 'percent',
    target: { of: 'hub', least: 70, unit: ' %' },
  },
];

/** Returns the rate of messages, and the CPU time of a message, between two times. */
function figuresBetween(start, end) {
  const count = end.acked - start.acked;
  return { perSecond: (count * 1000) / (end.at - start.at), cpuMs: ((end.cpu - start.cpu) * 1000) / count };
}

export async function run({ servers, quick, report, reportProblem }) {
  const server = servers.find(({ kind }) => kind === 'hub');
  const count = quick ? QUICK_MESSAGES : MESSAGES;
  const session = await server.openSession('long');
  const socket = await server.connectCli(session);
  const takeSnapshot = (acked) => ({ acked, at: performance.now(), cpu: cpuSeconds(server.pid) });
  const quarterMarks = [takeSnapshot(0)];
  const onAck = (acked) => acked % (count / 4) === 0 && quarterMarks.push(takeSnapshot(acked));
  const sent = await flood(socket, session, { inFlight: IN_FLIGHT, isDone: (sentCount) => sentCount === count, onAck });
  const misnumbered = sent.findIndex(({ seq }, index) => seq !== index + 1);
  if (misnumbered !== -1) reportProblem(`message ${misnumbered} got the seq ${sent[misnumbered].seq}`);
  socket.close();
  const first = figuresBetween(quarterMarks[0], quarterMarks[1]);
  const last = figuresBetween(quarterMarks[3], quarterMarks[4]);
  report('long-session-first', { hub: first });
  report('long-session-last', { hub: last });
  report('long-session-ratio', { hub: { percent: (last.perSecond / first.perSecond) * 100 } });
}
