// `npm test -- --changed`: skips checks whose inputs have not changed since they last passed.

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { addFiles } from '../inputs.mjs';
import { BUILD_DIR } from '../paths.mjs';

/** The JSON file that maps each passed check or test file to the hash of its inputs. */
const PASSED_FILE = path.join(BUILD_DIR, 'passed.json');

/** @returns {Record<string, string>} */
function readPassed() {
  try {
    return JSON.parse(readFileSync(PASSED_FILE, 'utf8'));
  } catch {
    return {};
  }
}

/** @param {string[]} inputs files and folders, relative to the project's root */
export const hashOf = (inputs) => addFiles(createHash('sha256'), inputs).digest('hex');

/**
 * @param {string} name of a check or of a test file
 * @param {string} hash over its inputs
 */
export const hasPassed = (name, hash) => readPassed()[name] === hash;

/** @param {Record<string, string>} passed the hashes by name of the check or test file: over the inputs, computed before the run */
export function recordPassed(passed) {
  mkdirSync(BUILD_DIR, { recursive: true });
  writeFileSync(PASSED_FILE, `${JSON.stringify({ ...readPassed(), ...passed }, null, 2)}\n`);
}
