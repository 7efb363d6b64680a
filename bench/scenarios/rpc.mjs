/** RPCs from REST to a CLI and back: a diff of 1 KB, at several levels of concurrency, and a file. */

import { compare } from '../lib/measure.mjs';

/** The most first: the runtime compiles hot code during the first thousands of requests, of which one caller sends only a few. */
const CONCURRENT_DIFFS = [64, 16, 1];
const FILE_KILOBYTES = 1024;
const CONCURRENT_FILES = 4;

const WORK = 'RPC of 1 KB, REST -> CLI -> REST';

export const rows = [
  { id: 'diff-1', work: `${WORK}, 1 concurrent`, mainFigure: 'p50', target: { of: 'ratio', most: 1.5 }, maxCpuRatio: 1.4 },
  { id: 'diff-16', work: `${WORK}, 16 concurrent`, mainFigure: 'perSecond', target: { of: 'ratio', least: 0.5 }, maxCpuRatio: 1.4 },
  { id: 'diff-64', work: `${WORK}, 64 concurrent`, mainFigure: 'perSecond', maxCpuRatio: 1.4 },
  { id: 'file', work: `RPC of ${FILE_KILOBYTES} KB, ${CONCURRENT_FILES} concurrent`, mainFigure: 'perSecond' },
];

/** Returns a unified diff of about 1 KB. JSON escapes its line breaks and quotes. */
function makeDiff() {
  const lines = Array.from({ length: 22 }, (_, line) => `${'+- '[line % 3]}  const name${line} = "value ${line}"; // unchanged`);
  return `--- a/small.txt\n+++ b/small.txt\n@@ -1,15 +1,15 @@\n${lines.join('\n')}\n`;
}

const DIFF_ANSWER = JSON.stringify({ success: true, diff: makeDiff() });
const FILE_ANSWER = JSON.stringify({ success: true, content: Buffer.alloc(FILE_KILOBYTES * 768, 'edge').toString('base64') });

/** Connects a CLI that answers RPCs at once with constant texts. Resolves to its socket and the paths of its session. */
async function connectCli(server) {
  const session = await server.openSession('rpc');
  const socket = await server.connectCli(session);
  socket.on('rpc-request', ({ params }, answer) => answer(params.includes('large.bin') ? FILE_ANSWER : DIFF_ANSWER));
  const paths = server.paths(session);
  await server.registerMethods(socket, session, ['gitDiffFile', 'readFile'], paths.diff);
  return { socket, paths };
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

export async function run({ servers, schedule, report }) {
  const clis = new Map();
  for (const server of servers) clis.set(server, await connectCli(server));
  const measure = (toPath, answer, concurrency) =>
    compare(servers, (server) => makeCallers(server, toPath(clis.get(server).paths), answer, concurrency), schedule);
  for (const concurrency of CONCURRENT_DIFFS) report(`diff-${concurrency}`, await measure(({ diff }) => diff, DIFF_ANSWER, concurrency));
  report('file', await measure(({ file }) => file, FILE_ANSWER, CONCURRENT_FILES));
  for (const { socket } of clis.values()) socket.close();
}
