/** Runs the commands of operators, `npm run namespace` and `npm run databases`, against a hub. */

import { spawn } from 'node:child_process';
import path from 'node:path';
import { ROOT } from './hub.mjs';

/**
 * Runs a script of `scripts/product` with the secret of the hub. Returns the exit code, and both outputs in one.
 * @param {import('./hub.mjs').Hub} hub
 * @param {string} script
 * @param {string[]} args
 * @returns {Promise<{code: number | null, output: string}>}
 */
export function runScript(hub, script, args) {
  // A variable of npx would look like an option that npm did not pass.
  const { npm_config_yes: _, ...env } = process.env;
  const child = spawn(process.execPath, [path.join(ROOT, 'scripts', 'product', `${script}.mjs`), ...args, '--hub', hub.url], {
    env: { ...env, CLI_API_TOKEN: hub.token() },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += data));
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, output })));
}
