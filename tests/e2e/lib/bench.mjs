/** Runs the benchmark. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import path from 'node:path';
import { ROOT } from './hub.mjs';

/** Runs the benchmark in its quick form with these arguments, and resolves to its output. */
export async function runQuickly(t, ...args) {
  const child = spawn(process.execPath, [path.join(ROOT, 'bench', 'run.mjs'), ...args, '--quick'], { cwd: ROOT });
  t.after(() => child.kill());
  const [stdout, stderr, code] = await Promise.all([
    child.stdout.setEncoding('utf8').toArray(),
    child.stderr.setEncoding('utf8').toArray(),
    new Promise((resolve) => child.once('exit', resolve)),
  ]);
  assert.equal(code, 0, `${stdout.join('')}${stderr.join('')}`);
  return stdout.join('');
}

/** Returns the cells of the table row with this title. */
export function cellsOf(text, title) {
  const line = text.split('\n').find((row) => row.startsWith(`| ${title} `));
  assert.ok(line, `${title} is not in:\n${text}`);
  return line
    .split('|')
    .slice(2, -1)
    .map((cell) => cell.trim());
}
