/** The host's part of a scenario: fresh runtimes for both sides, and a generator process that drives them. */

import { fork } from 'node:child_process';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

import { SECRET } from './hub.mjs';
import { startFresh } from './runtime.mjs';

const GENERATOR = fileURLToPath(new URL('./generator.mjs', import.meta.url));

/** No scenario takes a quarter of this; one that does has hung. */
const PATIENCE = 180_000;

const CANNED = Buffer.from('HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\ncanned');
const REQUEST_END = Buffer.from('\r\n\r\n');

/** A server that costs next to nothing: the same bytes for each request. What the generator makes of it is its own limit. */
function startCanned() {
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      if (chunk.subarray(-4).equals(REQUEST_END)) socket.write(CANNED);
    });
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve({ url: `http://127.0.0.1:${server.address().port}`, stop: () => server.close() }));
  });
}

/** Forks the generator, hands it the task, passes its messages on, and resolves when it is done. */
function generate(task, { report, note, problem }) {
  const child = fork(GENERATOR, { stdio: 'inherit' });
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  return new Promise((resolve) => {
    let done = false;
    const timer = setTimeout(() => {
      problem(`the scenario ${task.name} was not done after ${PATIENCE / 1000} s`);
      kill();
    }, PATIENCE);
    child.on('message', (message) => {
      if (message.type === 'figures') report(message.id, message.figures);
      if (message.type === 'note') note(message.text);
      if (message.type === 'problem') problem(message.text, message.stack);
      if (message.type === 'done') done = true;
    });
    child.once('exit', (code, signal) => {
      clearTimeout(timer);
      process.off('exit', kill);
      if (!done) problem(`the load generator ended in the middle of ${task.name} (${signal ?? code})`);
      resolve();
    });
    child.send(task);
  });
}

/** Runs one scenario on runtimes of its own, so that none inherits another's sessions, memory or warm caches. */
export async function runScenario(scenario, { kinds, build, quick, way }, listeners) {
  if (scenario.where === 'host') return scenario.run({ kinds, build, quick, ...listeners });
  const started = [];
  try {
    for (const kind of kinds) started.push(await startFresh(kind, build));
    const canned = await startCanned();
    started.push(canned);
    const [floor, hub] = started.map(({ url, pid }) => ({ url, pid, secret: SECRET, way }));
    const sides = kinds.includes('hub') ? { floor, hub } : { floor };
    await generate({ name: scenario.name, ...sides, quick, hostPid: process.pid, cannedUrl: canned.url }, listeners);
  } finally {
    for (const { stop } of started) await stop();
  }
}
