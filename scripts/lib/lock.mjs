// Waits for locks, so that at most one set-up or build runs in a folder.

import { setTimeout as sleep } from 'node:timers/promises';
import { tryLock } from '../../packages/cli-kit/src/lock.mjs';

const POLL_MS = 250;

/**
 * Waits until a lock file is free, and runs `work` while holding it.
 * @template T
 * @param {string} file
 * @param {string} workName what the work is, for the message while waiting, such as `set-up`
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock(file, workName, work) {
  let hasPrinted = false;
  for (;;) {
    const { lock, pid, host } = tryLock(file);
    if (lock) {
      try {
        return await work();
      } finally {
        lock.release();
      }
    }
    if (!hasPrinted) {
      console.log(
        `  Waiting for process ${pid}${host === undefined ? '' : ` of host ${host}`}, which runs the ${workName} in this folder …`,
      );
      console.log(`  (If process ${pid} is something else, delete ${file}.)`);
    }
    hasPrinted = true;
    await sleep(POLL_MS);
  }
}
