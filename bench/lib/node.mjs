/** Restarts the bench under a newer Node if this Node is too old for the runtime. */

import { spawn } from 'node:child_process';

import { nodeBinary, ownNodeIsNewEnough } from '../../scripts/lib/node.mjs';

/**
 * Resolves to null if this Node is new enough. Otherwise runs the same command under the Node that set-up has installed, and resolves to
 * the exit code of the command. Rejects if set-up has not installed Node.
 */
export async function rerunUnderNewerNode() {
  if (ownNodeIsNewEnough) return null;
  const child = spawn(nodeBinary(), process.argv.slice(1), { stdio: 'inherit' });
  const forward = (signal) => child.kill(signal);
  process.once('SIGINT', forward);
  process.once('SIGTERM', forward);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? 1));
  });
}
