/** Runs a scenario against new runtimes for floor and hub. */

import { withTimeout } from '../../scripts/lib/await.mjs';
import { SECRET } from './hub.mjs';
import { startFresh } from './runtime.mjs';
import { makeServer } from './servers.mjs';

/** Time limit of a scenario: several times longer than any scenario takes. */
const TIMEOUT_MS = 600_000;

/**
 * Runs one scenario on new runtimes, so that the scenario does not depend on the sessions, memory or caches of earlier scenarios.
 * @param {Record<string, any>} scenario a module of bench/scenarios
 * @param {{workers: {name: string, kind: string, build?: string}[], quick: boolean, schedule: object}} options
 * @param {{report: (id: string, figures: object) => void, addNote: (text: string) => void, addTable: (title: string, table: object) => void,
 *   reportProblem: (text: string) => void}} listeners
 */
export async function runScenario({ run, startsRuntimes = false }, { workers, quick, schedule }, listeners) {
  const started = [];
  const servers = [];
  try {
    for (const { name, kind, build } of startsRuntimes ? [] : workers) {
      const { url, pid, stop } = await startFresh(kind, build);
      started.push(stop);
      servers.push(makeServer({ name, kind, url, pid, secret: SECRET }));
      await servers.at(-1).signIn('bench');
    }
    await withTimeout(run({ workers, servers, quick, schedule, ...listeners }), 'the end of the scenario', TIMEOUT_MS);
  } finally {
    for (const stop of started) await stop();
  }
}
