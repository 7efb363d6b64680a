/** RPCs from REST to a CLI and back: a diff of 1 KB at several levels of concurrency, and a file of 1 MB. */

import { compare } from '../lib/measure.mjs';

const WORK = 'RPC of 1 KB, REST -> CLI -> REST';

export const rows = [
  {
    id: 'rpc-1kb-c1',
    work: `${WORK}, 1 concurrent`,
    mainFigure: 'p50',
    target: { of: 'ratio', most: 1.5 },
    maxCpuRatio: 1.4,
    otherHubA: '0.43 ms, 1,780/s',
    otherHubB: '0.58 ms, 1,330/s',
  },
  {
    id: 'rpc-1kb-c16',
    work: `${WORK}, 16 concurrent`,
    mainFigure: 'perSecond',
    target: { of: 'ratio', least: 0.5 },
    maxCpuRatio: 1.4,
    otherHubA: '6,800/s',
    otherHubB: '3,000/s',
  },
  {
    id: 'rpc-1kb-c64',
    work: `${WORK}, 64 concurrent`,
    mainFigure: 'perSecond',
    maxCpuRatio: 1.4,
    otherHubA: '7,280/s',
    otherHubB: '3,710/s',
  },
  { id: 'rpc-1kb-header-c1', work: `${WORK}, 1 concurrent, token in the upgrade`, mainFigure: 'p50' },
  { id: 'rpc-1kb-header-c16', work: `${WORK}, 16 concurrent, token in the upgrade`, mainFigure: 'perSecond' },
  { id: 'rpc-1mb-c4', work: 'RPC of 1 MB, 4 concurrent', mainFigure: 'perSecond', otherHubA: 'drops the CLI', otherHubB: '115/s' },
];

/** Returns a unified diff of about 1 KB. JSON escapes its line breaks and quotes. */
function makeDiff() {
  const lines = Array.from({ length: 22 }, (_, line) => `${'+- '[line % 3]}  const name${line} = "value ${line}"; // unchanged`);
  return `--- a/small.txt\n+++ b/small.txt\n@@ -1,15 +1,15 @@\n${lines.join('\n')}\n`;
}

const SMALL_ANSWER = JSON.stringify({ success: true, diff: makeDiff() });
const BIG_ANSWER = JSON.stringify({ success: true, content: Buffer.alloc(786_432, 'edge').toString('base64') });

/** Connects a CLI that answers RPCs at once with constant texts. */
async function connectCli(server, session, tokenIn) {
  const socket = await server.connectCli(session, tokenIn);
  socket.on('rpc-request', ({ params }, answer) => answer(params.includes('big.bin') ? BIG_ANSWER : SMALL_ANSWER));
  await server.registerMethods(socket, session, ['gitDiffFile', 'readFile'], server.paths(session).diff);
  return socket;
}

/** Returns `concurrency` callers of one path, each with its own connection. Each caller checks the length of every response. */
function makeCallers(server, path, expected, concurrency) {
  return Array.from({ length: concurrency }, () => {
    const connection = server.newConnection();
    const request = connection.get(path);
    return async () => {
      const answer = await connection.send(request);
      if (answer.status !== 200 || answer.bytes !== expected.length) {
        throw new Error(`an RPC of the ${server.name} returned status ${answer.status} with ${answer.bytes} bytes, not ${expected.length}`);
      }
    };
  });
}

/** Connects a CLI to each server, runs `measure`, and closes the sockets. `measure` gets a function that returns the paths of a server. */
async function withClis(servers, tokenIn, measure) {
  const clis = new Map();
  for (const server of servers) {
    const session = await server.openSession(`rpc-${tokenIn ?? 'default'}`);
    clis.set(server, { socket: await connectCli(server, session, tokenIn), paths: server.paths(session) });
  }
  await measure((server) => clis.get(server).paths);
  for (const { socket } of clis.values()) socket.close();
}

export async function run({ servers, schedule, report }) {
  await withClis(servers, undefined, async (paths) => {
    for (const concurrency of [1, 16, 64]) {
      const figures = await compare(servers, (server) => makeCallers(server, paths(server).diff, SMALL_ANSWER, concurrency), schedule);
      report(`rpc-1kb-c${concurrency}`, figures);
    }
    report('rpc-1mb-c4', await compare(servers, (server) => makeCallers(server, paths(server).file, BIG_ANSWER, 4), schedule));
  });
  await withClis(servers, 'header', async (paths) => {
    for (const concurrency of [1, 16]) {
      const figures = await compare(servers, (server) => makeCallers(server, paths(server).diff, SMALL_ANSWER, concurrency), schedule);
      report(`rpc-1kb-header-c${concurrency}`, figures);
    }
  });
}
