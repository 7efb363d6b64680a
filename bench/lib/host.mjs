/** Runs a scenario: starts new runtimes for floor and hub, and a generator process that sends the load. */

import { fork } from 'node:child_process';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

import { SECRET } from './hub.mjs';
import { startFresh } from './runtime.mjs';

const GENERATOR = fileURLToPath(new URL('./generator.mjs', import.meta.url));

/** Time limit of a scenario: several times longer than any scenario takes. */
const TIMEOUT_MS = 600_000;

const CONSTANT_RESPONSE = Buffer.from('HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\ncanned');
const REQUEST_END = Buffer.from('\r\n\r\n');

/** Starts a server that answers each request with the same bytes. The rate of this server shows the limit of the load generator. */
function startConstantServer() {
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => {});
    socket.on('data', (/** @type {Buffer} */ chunk) => {
      if (chunk.subarray(-4).equals(REQUEST_END)) socket.write(CONSTANT_RESPONSE);
    });
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () =>
      resolve({
        url: `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`,
        stop: () => server.close(),
      }),
    );
  });
}

/** Runs a task in a generator process, and passes its messages to the listeners. */
function runGenerator(task, { report, addNote, reportProblem }) {
  const child = fork(GENERATOR, { stdio: 'inherit' });
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  return new Promise((resolve) => {
    let isDone = false;
    const timer = setTimeout(() => {
      reportProblem(`the scenario ${task.name} did not finish within ${TIMEOUT_MS / 1000} s`);
      kill();
    }, TIMEOUT_MS);
    child.on('message', (/** @type {Record<string, any>} */ message) => {
      if (message.type === 'figures') report(message.id, message.figures);
      if (message.type === 'note') addNote(message.text);
      if (message.type === 'problem') reportProblem(message.text, message.stack);
      if (message.type === 'done') isDone = true;
    });
    child.once('exit', (code, signal) => {
      clearTimeout(timer);
      process.off('exit', kill);
      if (!isDone) reportProblem(`the load generator exited during ${task.name} (${signal ?? code})`);
      resolve();
    });
    child.send(task);
  });
}

/**
 * Runs one scenario on new runtimes, so that the scenario does not depend on the sessions, memory or caches of earlier scenarios.
 * @param {Record<string, any>} scenario a module of bench/scenarios
 * @param {{workers: {name: string, kind: string, build?: string}[], build: string, quick: boolean, schedule: object, way: string}} options
 * @param {{report: (id: string, figures: object) => void, addNote: (text: string) => void, addTable?: (title: string, table: object) => void,
 *   reportProblem: (text: string, stack?: string) => void}} listeners
 */
export async function runScenario(scenario, { workers, build, quick, schedule, way: tokenIn }, listeners) {
  if (scenario.where === 'host') {
    return scenario.run({ workers, kinds: workers.map(({ kind }) => kind), build, quick, schedule, tokenIn, ...listeners });
  }
  const started = [];
  try {
    const servers = [];
    for (const { name, kind, build: folder } of workers) {
      const runtime = await startFresh(kind, folder);
      started.push(runtime);
      servers.push({ name, kind, url: runtime.url, pid: runtime.pid, secret: SECRET, tokenIn });
    }
    const constantServer = await startConstantServer();
    started.push(constantServer);
    await runGenerator({ name: scenario.name, servers, quick, schedule, hostPid: process.pid, constantUrl: constantServer.url }, listeners);
  } finally {
    for (const { stop } of started) await stop();
  }
}
