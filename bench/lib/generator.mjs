/**
 * The load generator: a separate process, so that miniflare's host and the report do not use its CPU time. The parent process sends one
 * task `{name, servers, quick, schedule, hostPid}`. The generator runs the scenario, and answers with messages
 * `{type: 'figures' | 'note' | 'problem' | 'done', ...}`.
 */

import { loadScenario } from './scenarios.mjs';
import { makeServer } from './servers.mjs';

/** @param {Record<string, any>} task */
async function runTask({ name, servers: descriptions, quick, schedule, hostPid }) {
  const { run } = await loadScenario(name);
  const servers = descriptions.map(makeServer);
  for (const server of servers) await server.signIn(`bench-${name}`);
  await run({
    servers,
    quick,
    hostPid,
    schedule,
    report: (id, figures) => process.send({ type: 'figures', id, figures }),
    addNote: (text) => process.send({ type: 'note', text }),
    reportProblem: (text) => process.send({ type: 'problem', text }),
  });
}

process.once('message', async (/** @type {Record<string, any>} */ task) => {
  try {
    await runTask(task);
  } catch (error) {
    process.send({ type: 'problem', text: error.message, stack: error.stack });
  }
  process.send({ type: 'done' }, () => process.exit(0));
});

// The parent process has ended, and the runtime has ended with the parent.
process.once('disconnect', () => process.exit(1));
