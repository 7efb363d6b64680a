/**
 * The load generator: a process of its own, so that neither miniflare's host nor the report runs on its processor time.
 * Takes one task `{name, floor, hub?, quick, hostPid, cannedUrl}` from its parent, runs that scenario, and sends
 * `{type: 'figures' | 'note' | 'problem' | 'done', ...}` back.
 */

import { pace } from './measure.mjs';
import { scenario } from './scenarios.mjs';
import { sidesOf } from './sides.mjs';

async function runTask({ name, floor, hub, quick, hostPid, cannedUrl }) {
  const { run } = await scenario(name);
  const sides = sidesOf({ floor, hub });
  for (const side of sides) await side.enter(`bench-${name}`);
  await run({
    sides,
    quick,
    hostPid,
    cannedUrl,
    pace: pace(quick),
    report: (id, figures) => process.send({ type: 'figures', id, figures }),
    note: (text) => process.send({ type: 'note', text }),
    problem: (text) => process.send({ type: 'problem', text }),
  });
}

process.once('message', async (task) => {
  try {
    await runTask(task);
  } catch (error) {
    process.send({ type: 'problem', text: error.message, stack: error.stack });
  }
  process.send({ type: 'done' }, () => process.exit(0));
});

// Without its parent nobody reads the figures, and the runtime is gone as well.
process.once('disconnect', () => process.exit(1));
