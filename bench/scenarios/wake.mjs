/**
 * The first request and the first message after a hibernation. Before each request, the object is evicted, and its sockets stay open. Runs
 * in the host process, which can evict objects. Uses the counting hub, which counts the round trips to D1.
 */

import { SECRET } from '../lib/hub.mjs';
import { expectOk, sendOnce } from '../lib/http.mjs';
import { median } from '../../scripts/lib/statistics.mjs';
import { takeTurns } from '../lib/measure.mjs';
import { agentMessage } from '../lib/messages.mjs';
import { startFresh } from '../lib/runtime.mjs';
import { makeServer } from '../lib/servers.mjs';

export const where = 'host';

export const rows = [
  { id: 'wake-list', work: 'first GET sessions after a sleep', mainFigure: 'p50' },
  { id: 'wake-rpc', work: 'first RPC of 1 KB after a sleep', mainFigure: 'p50' },
  { id: 'wake-message', work: 'first message after a sleep -> ack', mainFigure: 'p50' },
];

const NAMESPACE = 'bench-wake';
const OBJECT_NAMES = { floor: 'floor', hub: NAMESPACE };
const ANSWER = JSON.stringify({ success: true, diff: 'x'.repeat(1000) });
const ACK_TIMEOUT_MS = 10_000;
/** How many times more turns this scenario has than the schedule, because a slice (the measurement of one server) is only a single wake. */
const TURNS_FACTOR = 3;
/** The number of wakes whose round trips are counted, after the measured wakes. */
const COUNTED_WAKES = 3;
/** Limit on the attempts to wake an object by a request. */
const MAX_ATTEMPTS = 20;

/** Connects a CLI to a server. Resolves to functions: the measured `requests` by name, `hibernate` and `close`. */
async function prepareServer(server, runtime) {
  await server.signIn(NAMESPACE);
  const session = await server.openSession('wake');
  const socket = await server.connectCli(session);
  socket.on('rpc-request', (_, answer) => answer(ANSWER));
  const paths = server.paths(session);
  await server.registerMethods(socket, session, ['gitDiffFile'], paths.diff);
  const connection = server.newConnection();
  const get = (path) => async () => expectOk(await connection.send(connection.get(path)), `GET ${path}`);
  let messages = 0;
  const sendMessage = async () => {
    messages += 1;
    const message = { sid: session.id, message: agentMessage(messages), localId: `wake-${messages}` };
    const ack = await socket.timeout(ACK_TIMEOUT_MS).emitWithAck('message', message);
    if (!ack.ok) throw new Error(`a message was refused: ${JSON.stringify(ack)}`);
  };
  const close = () => {
    connection.close();
    socket.close();
  };
  return {
    requests: { list: get(paths.list(500)), rpc: get(paths.diff), message: sendMessage },
    hibernate: () => runtime.hibernate(OBJECT_NAMES[server.kind]),
    close,
  };
}

async function readCounts(server) {
  const { wakes, roundTrips, worker } = (await sendOnce(server.url, 'GET', `/e2e/tally?namespace=${NAMESPACE}`)).json();
  return { wakes, roundTrips: roundTrips + worker.roundTrips };
}

/** Resolves to the number of round trips to D1 from a wake until the answer to the first request. */
async function countRoundTrips(server, { hibernate }, request) {
  const roundTrips = [];
  for (let attempt = 0; attempt < MAX_ATTEMPTS && roundTrips.length < COUNTED_WAKES; attempt += 1) {
    await hibernate();
    const before = await readCounts(server);
    await request();
    const after = await readCounts(server);
    // If the number of wakes differs, an alarm has woken the object before the request.
    if (after.wakes === before.wakes + 1) roundTrips.push(after.roundTrips - before.roundTrips);
  }
  if (roundTrips.length < COUNTED_WAKES) throw new Error(`requests to ${server.name} did not wake its object`);
  return median(roundTrips);
}

export async function run({ workers, schedule, tokenIn, report }) {
  const started = [];
  const prepared = new Map();
  try {
    for (const { name, kind, build } of workers) {
      const runtime = await startFresh(kind === 'hub' ? 'counting' : kind, build);
      started.push(runtime);
      const server = makeServer({ name, kind, url: runtime.url, pid: runtime.pid, secret: SECRET, tokenIn });
      prepared.set(server, await prepareServer(server, runtime));
    }
    const servers = [...prepared.keys()];
    for (const name of ['list', 'rpc', 'message']) {
      const measureSlice = async (server) => {
        const start = performance.now();
        await prepared.get(server).requests[name]();
        return { samples: [performance.now() - start], count: 1 };
      };
      const prepare = (server) => prepared.get(server).hibernate();
      await takeTurns(servers, 1, { prepare, measureSlice });
      /** @type {Record<string, any>} */
      const figures = await takeTurns(servers, TURNS_FACTOR * schedule.turns, { prepare, measureSlice });
      for (const server of servers.filter(({ kind }) => kind === 'hub')) {
        figures[server.name].roundTrips = await countRoundTrips(server, prepared.get(server), prepared.get(server).requests[name]);
      }
      report(`wake-${name}`, figures);
    }
  } finally {
    for (const { close } of prepared.values()) close();
    for (const { stop } of started) await stop();
  }
}
