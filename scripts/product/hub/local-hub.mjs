// The hub that runs with the data of this folder.

import { DEFAULT_HUB } from '../../../packages/cli-kit/src/hub-address.mjs';
import { findHolder } from '../../../packages/cli-kit/src/lock.mjs';
import { inData } from '../../lib/paths.mjs';

/** The lock of the data folder. Its details have the address of the hub. */
export const HUB_LOCK = inData('.wrangler', 'dev.lock');

/** Returns the address of the running hub, or {@link DEFAULT_HUB} if no hub of this user runs. @param {string} [lockFile] */
export function findLocalHub(lockFile = HUB_LOCK) {
  try {
    return findHolder(lockFile)?.details.address ?? DEFAULT_HUB;
  } catch {
    return DEFAULT_HUB;
  }
}

/** The address of the local hub when the command began. */
export const LOCAL_HUB = findLocalHub();
