/** Starts the bench again under a Node that is new enough for the runtime, where this one is not. */

import { spawn } from 'node:child_process';

import { nodeBinary, ownNodeIsNewEnough } from '../../scripts/lib/node.mjs';

/**
 * Resolves to null when this process may go on, or to the exit code of the same command run under the Node that the
 * project's set-up installed. Rejects with what to do when there is none.
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
