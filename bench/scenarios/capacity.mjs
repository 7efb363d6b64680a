/**
 * The capacity of one namespace: the CPU share of workerd for several rates of messages, numbers of web clients, and numbers of CLIs with
 * keep-alives. The results are in docs/CAPACITY.md.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { latencyFigures } from '../../scripts/lib/statistics.mjs';
import { inLanes } from '../../scripts/lib/parallel.mjs';
import { openLiveSession, sendSteadily } from '../lib/live-session.mjs';
import { cpuPercent, repeat } from '../lib/measure.mjs';
import { residentMegabytes } from '../lib/processes.mjs';

/** Messages per second from 20 CLIs, each with a web client. */
const MESSAGE_RATES = [50, 200, 500, 1000, 2000, 4000];
const CLIS = 20;
/** The numbers of web clients of one session, and the messages per second of this session. */
const FAN_OUTS = [20, 100, 200, 400];
const FAN_OUT_RATE = 20;
/** The numbers of idle CLIs. The local runtime needs two file descriptors for each CLI, and usually may open 20,000. */
const CLI_COUNTS = [1000, 4000, 8000];
const KEEP_ALIVE_MS = 10_000;

const formatCount = (number) => number.toLocaleString('en-US');

export const rows = [
  ...MESSAGE_RATES.map((rate) => ({
    id: `messages-${rate}`,
    work: `${formatCount(rate)} messages/s of 1 KB, ${CLIS} CLIs, ${CLIS} web clients: CPU`,
    mainFigure: 'percent',
  })),
  ...FAN_OUTS.map((clients) => ({
    id: `events-${clients}`,
    work: `${FAN_OUT_RATE} messages/s to ${clients} web clients (${formatCount(FAN_OUT_RATE * clients)} events/s): CPU`,
    mainFigure: 'percent',
  })),
  ...CLI_COUNTS.flatMap((clis) => [
    { id: `clis-${clis}`, work: `${formatCount(clis)} idle CLIs, keep-alive every 10 s: CPU`, mainFigure: 'percent' },
    { id: `clis-${clis}-memory`, work: `${formatCount(clis)} idle CLIs: resident memory for each CLI`, mainFigure: 'kilobytes' },
  ]),
];

/** Sends messages for a second, and then measures. */
async function measureMessages(server, sessions, rate, seconds) {
  await sendSteadily(sessions, rate, 1);
  /** @type {Awaited<ReturnType<typeof sendSteadily>>} */
  let sent;
  const percent = await cpuPercent(server.pid, async () => {
    sent = await sendSteadily(sessions, rate, seconds);
  });
  return { hub: { percent, ...latencyFigures(sent.events), perSecond: sent.events.length / seconds } };
}

/** Sends the keep-alives of all CLIs, evenly spread. Resolves to the CPU use of workerd, in percent of one processor. */
async function measureKeepAlives(server, sessions) {
  const stop = repeat((sessions.length * 1000) / KEEP_ALIVE_MS, (n) => {
    const session = sessions[n % sessions.length];
    server.keepAlive(session.socket, session);
  });
  // Excludes the first round, which activates every session, and writes the sessions to D1.
  await sleep(1.2 * KEEP_ALIVE_MS);
  const percent = await cpuPercent(server.pid, () => sleep(20_000));
  stop();
  return percent;
}

async function measureClis(server, counts, report, reportProblem) {
  const emptyMegabytes = residentMegabytes(server.pid);
  const sessions = [];
  for (const clis of counts) {
    const tags = Array.from({ length: clis - sessions.length }, (_, n) => `cli-${sessions.length + n}`);
    const added = await server.openSessions(tags);
    await inLanes(added, 32, async (session) => {
      session.socket = await server.connectCli(session);
    });
    sessions.push(...added);
    report(`clis-${clis}`, { hub: { percent: await measureKeepAlives(server, sessions) } });
    report(`clis-${clis}-memory`, { hub: { kilobytes: ((residentMegabytes(server.pid) - emptyMegabytes) * 1000) / clis } });
    const lostCount = sessions.filter(({ socket }) => !socket.connected).length;
    if (lostCount > 0) reportProblem(`${lostCount} of ${formatCount(clis)} CLIs lost their connection`);
  }
  for (const { socket } of sessions) socket.close();
}

export async function run({ servers, quick, report, reportProblem }) {
  const hub = servers.find(({ kind }) => kind === 'hub');
  const seconds = quick ? 2 : 10;
  const messages = await hub.inNamespace('messages');
  const sessions = await Promise.all(Array.from({ length: CLIS }, (_, n) => openLiveSession(messages, `messages-${n}`, { reportProblem })));
  for (const rate of MESSAGE_RATES) report(`messages-${rate}`, await measureMessages(messages, sessions, rate, seconds));
  for (const { close } of sessions) close();
  const events = await hub.inNamespace('events');
  for (const clients of FAN_OUTS) {
    const session = await openLiveSession(events, `events-${clients}`, { clients, reportProblem });
    report(`events-${clients}`, await measureMessages(events, [session], FAN_OUT_RATE, seconds));
    session.close();
  }
  await measureClis(await hub.inNamespace('clis'), quick ? CLI_COUNTS.slice(0, 1) : CLI_COUNTS, report, reportProblem);
}
