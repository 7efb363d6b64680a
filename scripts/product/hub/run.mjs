// Runs the hub on this computer until Ctrl-C, and restarts it when its runtime does not recover from a crash.

import { accessToken, ensureDevVars, namespaceToken } from '../../lib/dev-vars.mjs';
import { UserError } from '../../lib/errors.mjs';
import { startLine } from '../../lib/invocation.mjs';
import { bold, dim, runStep } from '../../lib/progress.mjs';
import { HubRefusedError } from './ready.mjs';
import { isStopping, onStop } from '../../lib/signals.mjs';
import { deleteMigrationRecords, deleteLocalTraces } from './wrangler.mjs';
import { announce, printLinkOnEnter } from './announce.mjs';
import { lockFolder } from './lock.mjs';
import { localAddress, portOption } from './options.mjs';
import { requireFreePort } from './port.mjs';
import { startWrangler } from './wrangler-dev.mjs';

/**
 * Runs the hub. Never resolves: a signal ends the process, and every other end is an error.
 * @param {import('./options.mjs').HubOptions} options
 * @param {object} worker
 * @param {string[]} worker.args the arguments of `wrangler dev` that name the worker
 * @param {() => Promise<void>} worker.prepare makes the worker, the console and the database ready
 * @returns {Promise<never>}
 */
export async function runHub(options, { args, prepare }) {
  const lock = await lockFolder(localAddress(options));
  await requireFreePort(options);
  console.log(bold('Session gateway hub'));
  deleteLocalTraces();
  await ensureDevVars();
  const secret = accessToken();
  await prepare();

  let hub;
  onStop(async () => {
    console.log(dim('\nStopping the hub …'));
    try {
      lock.markStopping();
    } catch (error) {
      // Without the mark, the next start waits for the lock, but does not say that this hub is stopping.
      if (error.code !== 'ENOSPC') console.error(error);
    }
    await hub?.stop();
    console.log(dim('The hub has stopped.'));
    return 0;
  });
  for (let starts = 1, hasHung = true; hasHung; starts += 1) {
    hub = startWrangler(options, args);
    // If this script is killed, the lock is held until wrangler has exited.
    lock.addProcesses(hub.pids);
    try {
      // With REQUIRE_NAMESPACE_TOKENS, the hub accepts only a token of a namespace.
      const token = await runStep('hub', () => hub.ready([secret, namespaceToken(secret, 'default')]));
      if (starts === 1) {
        await announce(options, token, token !== secret);
        printLinkOnEnter(options, token);
      }
    } catch (error) {
      if (isStopping()) throw error;
      await hub.stop();
      // The user may have replaced the database by one without tables. Without these files, the next start applies the migrations.
      if (error instanceof HubRefusedError) deleteMigrationRecords();
      throw error;
    }
    hasHung = await Promise.race([hub.exited.then(() => false), hub.hung.then(() => true)]);
    if (hasHung) console.log('The hub has not responded since its runtime crashed. Restarting it …');
    await hub.stop();
  }
  throw new UserError('wrangler exited unexpectedly; see its output above.', `Start the hub again with: ${startLine(portOption(options))}`);
}
