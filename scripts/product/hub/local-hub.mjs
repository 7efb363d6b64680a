// The hub that runs with the data of this folder.

import { findHolder } from '../../../packages/cli-kit/src/lock.mjs';
import { inData } from '../../lib/paths.mjs';
import { DEFAULT_PORT } from './options.mjs';

/** The lock of the data folder. Its details have the address of the hub. */
export const HUB_LOCK = inData('.wrangler', 'dev.lock');

export const DEFAULT_HUB = `http://127.0.0.1:${DEFAULT_PORT}`;

/** Returns the address of the running hub, or {@link DEFAULT_HUB} if no hub of this user runs. @param {string} [lockFile] */
export function localHub(lockFile = HUB_LOCK) {
  try {
    return findHolder(lockFile)?.details.address ?? DEFAULT_HUB;
  } catch {
    return DEFAULT_HUB;
  }
}
