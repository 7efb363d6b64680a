// The lock of the data folder. Without the lock, two hubs could write to the same local database.

import { setTimeout as sleep } from 'node:timers/promises';
import { tryLock } from '../../../packages/cli-kit/src/lock.mjs';
import { findNpmPid } from '../../../packages/cli-kit/src/npm-process.mjs';
import { isRunning } from '../../../packages/cli-kit/src/system-processes.mjs';
import { UserError } from '../../lib/errors.mjs';
import { makeFolder } from '../../lib/make-folder.mjs';
import { DATA_DIR, IS_PACKAGE } from '../../lib/paths.mjs';
import { HUB_LOCK } from './local-hub.mjs';

/** Time limit until the previous hub in this folder has stopped. A hub needs at most 6 s to stop. */
const PREVIOUS_HUB_TIMEOUT_MS = 15_000;

const POLL_MS = 50;

/** How the user gets a data folder for a second hub. */
const SECOND_FOLDER_ADVICE = IS_PACKAGE ? 'choose another folder with --data' : 'clone the project again';

/**
 * Locks the data folder. Waits for a previous hub that is stopping.
 * @param {string} address the address of this hub, which the error names when a second hub is started
 */
export async function lockFolder(address) {
  makeFolder(DATA_DIR);
  const npmPid = findNpmPid();
  const ownDetails = npmPid === undefined ? { address } : { address, npm: String(npmPid) };
  const deadline = Date.now() + PREVIOUS_HUB_TIMEOUT_MS;
  let attempt = tryLock(HUB_LOCK, ownDetails);
  if (isHeldByEndingHub(attempt)) console.log('  Waiting until the previous hub in this folder has stopped …');
  while (isHeldByEndingHub(attempt) && Date.now() < deadline) {
    await sleep(POLL_MS);
    attempt = tryLock(HUB_LOCK, ownDetails);
  }
  const { lock, pid, host, details } = attempt;
  if (lock) return { ...lock, markStopping: () => lock.setDetails({ ...ownDetails, stopping: 'yes' }) };
  throw new UserError(
    `A hub is already running in this folder: ${details.address} (process ${pid}${host === undefined ? '' : ` of host ${host}`}).`,
    [
      `Use it, or stop it with Ctrl-C in its terminal or by ending process ${pid}.`,
      `To run a second hub, ${SECOND_FOLDER_ADVICE}: two hubs cannot share a local database.`,
      `(If process ${pid} is no hub, delete ${HUB_LOCK}.)`,
    ].join('\n'),
  );
}

/**
 * Whether the lock will be released soon, because the hub that holds it is stopping, was started by an npm that has ended, or was killed and only
 * its child processes still run.
 * @param {ReturnType<typeof tryLock>} attempt
 */
function isHeldByEndingHub({ lock, ownerHasExited, details }) {
  if (lock) return false;
  return ownerHasExited || details.stopping !== undefined || (details.npm !== undefined && !isRunning(Number(details.npm)));
}
