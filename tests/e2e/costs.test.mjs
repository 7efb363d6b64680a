/** `npm run cost`, `npm run idle` and `npm run bench -- --compare` in their quick form, to the end, with the built hub. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import path from 'node:path';
import { describe, test } from 'node:test';
import { temporaryFolder } from './lib/git.mjs';
import { ROOT } from './lib/hub.mjs';

/** Runs the bench with these arguments, and resolves to what it prints. */
async function runQuickly(t, ...args) {
  const out = path.join(temporaryFolder(t), 'result.json');
  const child = spawn(process.execPath, [path.join(ROOT, 'bench', 'run.mjs'), ...args, '--quick', '--out', out], { cwd: ROOT });
  t.after(() => child.kill());
  const [stdout, stderr, code] = await Promise.all([
    child.stdout.setEncoding('utf8').toArray(),
    child.stderr.setEncoding('utf8').toArray(),
    new Promise((resolve) => child.once('exit', resolve)),
  ]);
  assert.equal(code, 0, `${stdout.join('')}${stderr.join('')}`);
  return stdout.join('');
}

/** The cells of the row of a table with this title. */
function cellsOf(text, title) {
  const line = text.split('\n').find((row) => row.startsWith(`| ${title} `));
  assert.ok(line, `${title} is not in:\n${text}`);
  return line.split('|').slice(2, -1).map((cell) => cell.trim());
}

describe('quickly', { concurrency: true }, () => {
  test('npm run cost prints rows, prices and verdicts of a month', async (t) => {
    const text = await runQuickly(t, 'cost');
    for (const [work, rows] of [['D1 rows written for a message', '3'], ['D1 rows written for one with a local id', '4']]) {
      const cells = cellsOf(text, work);
      assert.deepEqual([cells[0], cells.includes('met')], [rows, true], work);
    }
    const [price] = cellsOf(text, 'a month: messages and keep-alives');
    assert.ok(Number(price.slice(1)) < 1, `a month costs ${price}`);
    assert.match(cellsOf(text, 'sum').at(-1), /^list prices of/);
    assert.equal(cellsOf(text, 'a minute of 5 agents without messages')[1], '0', 'D1 rows that keep-alives write');
    assert.match(text, /cost: if each message has a local id/);
  });

  test('npm run idle prints wakes, statements and prices of a month', async (t) => {
    const text = await runQuickly(t, 'idle');
    for (const work of ['20 CLIs and 5 web clients, idle', '20 CLIs, keep-alive every 10 s']) {
      const cells = cellsOf(text, `${work}: statements to D1`);
      assert.deepEqual([cells[0], cells.includes('met')], ['0', true], work);
    }
    assert.match(text, /What a month of 30 such days and nights uses/);
  });

  test('npm run bench -- --compare prints ratios with their spread, CPU time and round trips to D1', async (t) => {
    const build = path.join(ROOT, 'build');
    const text = await runQuickly(t, '--compare', '--only', 'post,wake', build, build);
    const ratio = /^\d+\.\d\d \(\d+\.\d\d to \d+\.\d\d\)$/;
    const cpu = /^\d+\.\d\d ms, \d+\.\d\d x floor$/;
    for (const work of ['POST message -> CLI `update`, at 16', 'first message after a sleep -> ack']) {
      const [, , relative, , cpuA, cpuB, relativeCpu] = cellsOf(text, work);
      for (const cell of [relative, relativeCpu]) assert.match(cell, ratio, work);
      for (const cell of [cpuA, cpuB]) assert.match(cell, cpu, work);
    }
    assert.match(cellsOf(text, 'first GET sessions after a sleep')[0], / 1 round trip to D1$/);
  });
});
