/** The time from the start of the runtime, on existing databases, to the first response. */

import { sendOnce } from '../lib/http.mjs';
import { median } from '../../scripts/lib/statistics.mjs';
import { createStateFolder, start } from '../lib/runtime.mjs';

export const startsRuntimes = true;

export const rows = [
  {
    id: 'start',
    work: 'start of the runtime to the first response',
    mainFigure: 'milliseconds',
    target: { of: 'hub', most: 1000, unit: ' ms' },
  },
];

const FIRST_PATH = { floor: '/text', hub: '/health' };

/** Starts a worker on existing databases. Resolves to the milliseconds until its first successful response. */
async function timeFirstResponse(kind, build, state) {
  const begin = performance.now();
  const runtime = await start(kind, build, state);
  try {
    await sendOnce(runtime.url, 'GET', FIRST_PATH[kind]);
    return performance.now() - begin;
  } finally {
    await runtime.stop();
  }
}

export async function run({ workers, quick, report }) {
  const figures = {};
  for (const { name, kind, build } of workers) {
    const state = createStateFolder();
    try {
      const runtime = await start(kind, build, state);
      await runtime.prepare().finally(() => runtime.stop());
      const times = [];
      for (let turn = 0; turn < (quick ? 1 : 3); turn += 1) times.push(await timeFirstResponse(kind, build, state));
      figures[name] = { milliseconds: median(times) };
    } finally {
      state.remove();
    }
  }
  report('start', figures);
}
