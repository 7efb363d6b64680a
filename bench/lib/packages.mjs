/** The npm packages of the bench: the packages of the end-to-end tests, so that bench and tests use the same runtime and client. */

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const HOME = join(ROOT, 'tests', 'e2e');

/** @throws {Error} if the package is not installed */
export function loadPackage(name) {
  try {
    return createRequire(join(HOME, 'package.json'))(name);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    throw new Error(`The package ${name} is not installed for ${HOME}. Install it with: npm run setup`, { cause: error });
  }
}

/** Returns the version of an installed package. */
export function versionOf(name) {
  return loadPackage(`${name}/package.json`).version;
}
