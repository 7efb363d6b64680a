/** The time from a CLI's `message` to the web clients of its session: 50 messages per second, with 1 and 50 web clients. */

import { openLiveSession, sendSteadily } from '../lib/live-session.mjs';
import { takeTurns } from '../lib/measure.mjs';

const PER_SECOND = 50;

export const rows = [
  { id: 'sse-1', work: 'message -> SSE at 50/s, 1 subscriber', mainFigure: 'p50' },
  { id: 'sse-50', work: 'message -> SSE at 50/s, 50 subscribers', mainFigure: 'p50', target: { of: 'ratio', most: 1.15 } },
];

export async function run({ servers, schedule, report, reportProblem }) {
  for (const clients of [1, 50]) {
    const sessions = new Map();
    for (const server of servers) sessions.set(server, await openLiveSession(server, `sse-${clients}`, { clients, reportProblem }));
    for (const session of sessions.values()) await sendSteadily([session], PER_SECOND, 1);
    const measureSlice = async (server) => {
      const { count, events: samples } = await sendSteadily([sessions.get(server)], PER_SECOND, 2 * schedule.seconds);
      return { samples, count };
    };
    report(`sse-${clients}`, await takeTurns(servers, schedule.turns, { measureSlice }));
    for (const { close } of sessions.values()) close();
  }
}
