// Runs cargo, and the native tests.

import path from 'node:path';
import { run } from '../lib/run.mjs';
import { CARGO_TARGET_DIR } from '../build/worker.mjs';

/** Gives linters a target folder of their own, so that they do not wait until cargo has built the tests. */
export const CHECK_TARGET_DIR = ['--target-dir', path.join(CARGO_TARGET_DIR, 'check')];

/**
 * @param {import('./phases.mjs').Report} report
 * @param {string[]} args
 * @param {Record<string, string>} [env]
 */
export async function cargo({ setProgress, addLine }, args, env) {
  const onLine = (text) => {
    addLine(text);
    const compiled = text.match(/^\s*(Compiling|Checking|Documenting) (\S+)/);
    if (compiled) setProgress(`${compiled[1].toLowerCase()} ${compiled[2]}`);
    return true;
  };
  await run('cargo', args, { env, onLine });
}

/**
 * Runs all native tests, also after a failure.
 * @param {import('./phases.mjs').Report} report
 * @param {Record<string, string>} [env]
 * @returns {Promise<import('./phases.mjs').TestRun>}
 */
export async function runNativeTests({ setProgress, addLine }, env = {}) {
  /** @type {import('./phases.mjs').TestRun} */
  const result = { passed: 0, skipped: 0, failures: [] };
  let testBinary = '';
  /** The failed test whose output is being read. @type {import('./phases.mjs').TestFailure | undefined} */
  let failure;
  const onLine = (text) => {
    addLine(text);
    testBinary = text.match(/^\s*Running (?:unittests )?(\S+)/)?.[1] ?? testBinary;
    const [, title] = text.match(/^---- (.+) stdout ----$/) ?? [];
    const counts = text.match(/^test result: .* (\d+) passed; \d+ failed; (\d+) ignored;/);
    if (title !== undefined) {
      failure = { file: testBinary, title, error: '', output: [], isSlow: false };
      result.failures.push(failure);
    } else if (text === 'failures:') failure = undefined;
    else if (failure) failure.error += `${text}\n`;
    if (counts) {
      result.passed += Number(counts[1]);
      result.skipped += Number(counts[2]);
    }
    if (/^test .* \.\.\. ok$/.test(text)) setProgress(text.slice('test '.length, -' ... ok'.length));
    return true;
  };
  try {
    await run('cargo', ['test', '--locked', '--no-fail-fast'], { onLine, env });
  } catch (error) {
    if (result.failures.length === 0) throw error;
  }
  return result;
}
