/** Runs the commands that compare builds, in their quickest form, with the built hub. */

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { cellsOf, runQuickly, runScript } from './lib/bench.mjs';
import { ROOT } from './lib/hub.mjs';

test('npm run bench -- --compare prints ratios with their spread, CPU time and round trips to D1', async (t) => {
  const build = path.join(ROOT, 'build');
  const text = await runQuickly(t, '--compare', '--only', 'post,wake', build, build);
  const ratio = /^\d+\.\d\d \(\d+\.\d\d to \d+\.\d\d\)$/;
  const cpu = /^\d+\.\d\d ms, \d+\.\d\d x floor$/;
  for (const work of ['POST message -> CLI `update`, 16 concurrent', 'first message after a sleep -> ack']) {
    const [, , relative, , cpuA, cpuB, relativeCpu] = cellsOf(text, work);
    for (const cell of [relative, relativeCpu]) assert.match(cell, ratio, work);
    for (const cell of [cpuA, cpuB]) assert.match(cell, cpu, work);
  }
  assert.match(cellsOf(text, 'first GET sessions after a sleep')[0], / 1 round trip to D1$/);
});

test('npm run cpu measures each request of a build', async (t) => {
  const text = await runScript(t, 'cpu.mjs', '--passes', '1', path.join(ROOT, 'build'));
  const [names, times] = text
    .trim()
    .split('\n')
    .slice(-2)
    .map((row) => row.trim().split(/\s{2,}/));
  assert.deepEqual(names, ['build', 'alive', 'rpc', 'ingest', 'post', 'list', 'show', 'page', 'mean']);
  for (const time of times.slice(1, names.length - 1)) assert.match(time, /^\d+\.\d µs$/);
});
