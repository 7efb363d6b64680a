// Builds the worker and the console, and compares their sizes with the budgets.

import { build, describeBuild } from '../build/build.mjs';
import { buildConsole, describeConsole } from '../build/console.mjs';
import { UserError } from '../lib/errors.mjs';

/** Limit on the compressed wasm, about 2 KB above its measured size. CHANGELOG.md states the reason for each increase. */
const WASM_BUDGET_BYTES = 881_500;

/** Limits on the compressed files that the console loads before it shows the list, or a session: just above the measured sizes. */
const FIRST_LOAD_BUDGETS = { firstLoadBytes: 79_540, sessionLoadBytes: 110_830 };

/** @param {import('./phases.mjs').Report} report */
export async function buildWithinBudget({ addResult }) {
  const built = await build();
  addResult(describeBuild(built).trim());
  if (built.gzipBytes > WASM_BUDGET_BYTES) {
    throw new UserError(
      `The wasm has ${built.gzipBytes} bytes after gzip; its budget is ${WASM_BUDGET_BYTES}.`,
      'Find what grew with: npx twiggy top build/index_bg.wasm. To raise WASM_BUDGET_BYTES in scripts/gate/budgets.mjs, state the reason in CHANGELOG.md.',
    );
  }
}

/** @param {import('./phases.mjs').Report} report */
export async function buildConsoleWithinBudget({ addResult }) {
  const built = await buildConsole();
  addResult(describeConsole(built).trim());
  for (const [name, budget] of Object.entries(FIRST_LOAD_BUDGETS)) {
    if (built[name] <= budget) continue;
    const view = name === 'sessionLoadBytes' ? 'a session' : 'the list of sessions';
    throw new UserError(
      `The web console loads ${built[name]} bytes before it shows ${view}; the budget is ${budget}.`,
      'Load what the first screen does not need with `import()`; `ls -S web/dist/assets` lists the largest files first.',
    );
  }
}
