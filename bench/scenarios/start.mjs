/** From starting the runtime to the first answer, and the size of what is deployed. Runs in the host process. */

import { wasmSize } from '../lib/hub.mjs';
import { once } from '../lib/http.mjs';
import { median } from '../lib/measure.mjs';
import { newState, start } from '../lib/runtime.mjs';

export const where = 'host';

export const rows = [
  {
    id: 'start',
    work: 'start of the runtime to the first answer',
    headline: 'milliseconds',
    target: { of: 'hub', most: 1000, unit: ' ms' },
    hubA: '243 ms',
    hubB: '767 ms',
  },
  { id: 'wasm-gzip', work: 'wasm, gzip', headline: 'kilobytes', target: { of: 'hub', most: 650, unit: ' KB' } },
  { id: 'wasm-raw', work: 'wasm, raw', headline: 'kilobytes' },
];

const FIRST = { floor: '/text', hub: '/health' };

/** Starts `kind` on databases that exist already, as after a restart; milliseconds until it answered 200. */
async function firstAnswer(kind, build, state) {
  const begin = performance.now();
  const runtime = await start(kind, build, state);
  try {
    await once(runtime.url, 'GET', FIRST[kind]);
    return performance.now() - begin;
  } finally {
    await runtime.stop();
  }
}

async function measure(kind, build, repeats) {
  const state = newState();
  try {
    const runtime = await start(kind, build, state);
    await runtime.prepare().finally(() => runtime.stop());
    const times = [];
    for (let turn = 0; turn < repeats; turn += 1) times.push(await firstAnswer(kind, build, state));
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
