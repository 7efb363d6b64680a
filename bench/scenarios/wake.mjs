/**
 * The first request and the first message after a sleep. Before each request, the object is evicted and keeps its sockets, as in
 * hibernation. Runs in the host process, which can evict objects. Uses the counting hub, which counts the round trips to D1.
 */

import { SECRET } from '../lib/hub.mjs';
import { expectOk, sendOnce } from '../lib/http.mjs';
import { median } from '../../scripts/lib/statistics.mjs';
import { takeTurns } from '../lib/measure.mjs';
import { agentMessage } from '../lib/messages.mjs';
import { startFresh } from '../lib/runtime.mjs';
import { makeSide } from '../lib/sides.mjs';

export const where = 'host';

export const rows = [
  { id: 'wake-list', work: 'first GET sessions after a sleep', headline: 'p50' },
  { id: 'wake-rpc', work: 'first RPC of 1 KB after a sleep', headline: 'p50' },
  { id: 'wake-message', work: 'first message after a sleep -> ack', headline: 'p50' },
];

const NAMESPACE = 'bench-wake';
const OBJECT_NAMES = { floor: 'floor', hub: NAMESPACE };
const ANSWER = JSON.stringify({ success: true, diff: 'x'.repeat(1000) });
const ACK_TIMEOUT_MS = 10_000;
/** Wakes of each side for each of the pace's rounds. */
const WAKES_PER_ROUND = 3;
/** Further wakes, for which the round trips are counted, and the limit on the attempts. */
const COUNTED_WAKES = 3;
const MAX_ATTEMPTS = 20;

/** Connects a CLI to a side. Resolves to the side's `requests`, `hibernate`, and `close`. */
async function prepareSide(side, runtime) {
  await side.signIn(NAMESPACE);
  const session = await side.openSession('wake');
  const socket = await side.connectCli(session);
  socket.on('rpc-request', (_, answer) => answer(ANSWER));
  const paths = side.paths(session);
  await side.registerMethods(socket, session, ['gitDiffFile'], paths.diff);
  const connection = side.newConnection();
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
    hibernate: () => runtime.hibernate(OBJECT_NAMES[side.kind]),
    close,
  };
}

async function readCounts(side) {
  const { wakes, roundTrips, worker } = (await sendOnce(side.url, 'GET', `/e2e/tally?namespace=${NAMESPACE}`)).json();
  return { wakes, roundTrips: roundTrips + worker.roundTrips };
}

/** Resolves to the number of round trips to D1 from a wake until the answer to the first request. */
async function countRoundTrips(side, { hibernate }, request) {
  const roundTrips = [];
  for (let attempt = 0; attempt < MAX_ATTEMPTS && roundTrips.length < COUNTED_WAKES; attempt += 1) {
    await hibernate();
    const before = await readCounts(side);
    await request();
    const after = await readCounts(side);
    // If the request did not wake the object, an alarm has woken the object before.
    if (after.wakes === before.wakes + 1) roundTrips.push(after.roundTrips - before.roundTrips);
  }
  if (roundTrips.length < COUNTED_WAKES) throw new Error(`requests to ${side.name} did not wake its object`);
  return median(roundTrips);
}

export async function run({ workers, pace, way, report }) {
  const started = [];
  const prepared = new Map();
  try {
    for (const { name, kind, build } of workers) {
      const runtime = await startFresh(kind === 'hub' ? 'counting' : kind, build);
      started.push(runtime);
      const side = makeSide({ name, kind, url: runtime.url, pid: runtime.pid, secret: SECRET, way });
      prepared.set(side, await prepareSide(side, runtime));
    }
    const sides = [...prepared.keys()];
    for (const name of ['list', 'rpc', 'message']) {
      const slice = async (side) => {
        const start = performance.now();
        await prepared.get(side).requests[name]();
        return { samples: [performance.now() - start], count: 1 };
      };
      const prepare = (side) => prepared.get(side).hibernate();
      await takeTurns(sides, 1, { prepare, slice });
      /** @type {Record<string, any>} */
      const figures = await takeTurns(sides, WAKES_PER_ROUND * pace.rounds, { prepare, slice });
      for (const side of sides.filter(({ kind }) => kind === 'hub')) {
        figures[side.name].roundTrips = await countRoundTrips(side, prepared.get(side), prepared.get(side).requests[name]);
      }
      report(`wake-${name}`, figures);
    }
  } finally {
    for (const { close } of prepared.values()) close();
    for (const { stop } of started) await stop();
  }
}
