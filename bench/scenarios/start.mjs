/** The time from the start of the runtime to the first response, and the size of the wasm. */

import { wasmSize } from '../lib/hub.mjs';
import { sendOnce } from '../lib/http.mjs';
import { median } from '../../scripts/lib/statistics.mjs';
import { createStateFolder, start } from '../lib/runtime.mjs';

export const where = 'host';

export const rows = [
  {
    id: 'start',
    work: 'start of the runtime to the first response',
    mainFigure: 'milliseconds',
    target: { of: 'hub', most: 1000, unit: ' ms' },
    otherHubA: '243 ms',
    otherHubB: '767 ms',
  },
  { id: 'wasm-gzip', work: 'wasm, gzip', mainFigure: 'kilobytes', target: { of: 'hub', most: 650, unit: ' KB' } },
  { id: 'wasm-raw', work: 'wasm, raw', mainFigure: 'kilobytes' },
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

async function measure(kind, build, repeats) {
  const state = createStateFolder();
  try {
    const runtime = await start(kind, build, state);
    await runtime.prepare().finally(() => runtime.stop());
    const times = [];
    for (let turn = 0; turn < repeats; turn += 1) times.push(await timeFirstResponse(kind, build, state));
    return { milliseconds: median(times) };
  } finally {
    state.remove();
  }
}

export async function run({ kinds, build, quick, report }) {
  const figures = {};
  for (const kind of kinds) figures[kind] = await measure(kind, build, quick ? 1 : 3);
  report('start', figures);
  if (!kinds.includes('hub')) return;
  const { raw, gzip } = wasmSize(build);
  report('wasm-gzip', { hub: { kilobytes: gzip / 1000 } });
  report('wasm-raw', { hub: { kilobytes: raw / 1000 } });
}
