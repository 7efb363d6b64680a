/** Runs a scenario: starts new runtimes for floor and hub, and a generator process that sends the load. */

import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import { SECRET } from './hub.mjs';
import { startFresh } from './runtime.mjs';

const GENERATOR = fileURLToPath(new URL('./generator.mjs', import.meta.url));

/** Time limit of a scenario: several times longer than any scenario takes. */
const TIMEOUT_MS = 600_000;

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
 * @param {{workers: {name: string, kind: string, build?: string}[], quick: boolean, schedule: object}} options
 * @param {{report: (id: string, figures: object) => void, addNote: (text: string) => void, addTable?: (title: string, table: object) => void,
 *   reportProblem: (text: string, stack?: string) => void}} listeners
 */
export async function runScenario(scenario, { workers, quick, schedule }, listeners) {
  if (scenario.where === 'host') return scenario.run({ workers, quick, ...listeners });
  const started = [];
  try {
    const servers = [];
    for (const { name, kind, build } of workers) {
      const runtime = await startFresh(kind, build);
      started.push(runtime);
      servers.push({ name, kind, url: runtime.url, pid: runtime.pid, secret: SECRET });
    }
    await runGenerator({ name: scenario.name, servers, quick, schedule, hostPid: process.pid }, listeners);
  } finally {
    for (const { stop } of started) await stop();
  }
}
