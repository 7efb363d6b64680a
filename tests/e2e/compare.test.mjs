/** Runs the comparison of two builds in its quickest form, with the built hub. */

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { cellsOf, runQuickly } from './lib/bench.mjs';
import { ROOT } from './lib/hub.mjs';

test('npm run bench -- --compare prints ratios with their spread, and CPU time', async (t) => {
  const build = path.join(ROOT, 'build');
  const text = await runQuickly(t, '--compare', '--only', 'post,sse', build, build);
  const ratio = /^\d+\.\d\d \(\d+\.\d\d to \d+\.\d\d\)$/;
  const cpu = /^\d+\.\d\d ms, \d+\.\d\d x floor$/;
  for (const work of ['POST message -> CLI `update`, 16 concurrent', 'message -> SSE at 50/s, 50 subscribers']) {
    const [, , relative, , cpuA, cpuB, relativeCpu] = cellsOf(text, work);
    for (const cell of [relative, relativeCpu]) assert.match(cell, ratio, work);
    for (const cell of [cpuA, cpuB]) assert.match(cell, cpu, work);
  }
});
