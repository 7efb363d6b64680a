// What is kept of the last runs of `npm test`, outside of the clone: which trees passed, and what the test files printed.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { cacheFolder } from '../build/cache.mjs';
import { CACHE_DIR } from '../lib/paths.mjs';
import { outputOf } from '../lib/run.mjs';

const FILE = path.join(CACHE_DIR, 'gate.json');
const MAX_RUNS = 10;

/** The folder of this run's logs. @type {string | undefined} */
let ownLogs;

/**
 * A run of all checks that passed.
 * @typedef {object} Run
 * @property {string} tree the id of the git tree that was tested
 * @property {number} passed number of passed tests
 * @property {string[]} flaky the tests that failed at first, and passed alone
 * @property {number} seconds
 * @property {string} at the end of the run, as an ISO time
 */

/** Returns the last runs, the newest last. @returns {Run[]} */
export function readRuns() {
  try {
    return JSON.parse(readFileSync(FILE, 'utf8'));
  } catch {
    return [];
  }
}

/** @param {Run} run */
export function recordRun(run) {
  mkdirSync(CACHE_DIR, { recursive: true });
  writeFileSync(FILE, `${JSON.stringify([...readRuns(), run].slice(-MAX_RUNS), null, 2)}\n`);
}

/** Returns the id of the committed tree; undefined outside of a git clone, and if a file differs from the commit. */
export function committedTree() {
  return outputOf('git', ['status', '--porcelain']) === '' ? outputOf('git', ['rev-parse', 'HEAD^{tree}']) : undefined;
}

/** Returns the folder with a log for each test file of this run. The first call creates it, and deletes the folders of old runs. */
export function logFolder() {
  if (ownLogs === undefined) {
    ownLogs = path.join(cacheFolder('test-logs', MAX_RUNS - 1), `${new Date().toISOString().replaceAll(':', '-')} ${process.pid}`);
    mkdirSync(ownLogs, { recursive: true });
  }
  return ownLogs;
}
