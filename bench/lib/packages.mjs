/** The npm packages of the bench: those that the end-to-end tests pin, so that both run the same runtime and client. */

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** `tests/e2e` pins miniflare 4.x and socket.io-client; `BENCH_PACKAGES` names another folder with a node_modules. */
const HOME = process.env.BENCH_PACKAGES ?? join(ROOT, 'tests', 'e2e');

/** Loads a package as the end-to-end tests would; says what to run when it is not installed. */
export function load(name) {
  try {
    return createRequire(join(HOME, 'package.json'))(name);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    throw new Error(`The package ${name} is not installed for ${HOME}: run \`npm ci\` in the project's folder.`, {
      cause: error,
    });
  }
}

/** The version of an installed package. */
export function version(name) {
  return load(`${name}/package.json`).version;
}
