/** Creates a folder with its content in one step: no process sees a part of it. */

import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { isRunning } from 'session-gateway-cli-kit/system-processes';

/**
 * Fills a folder under a temporary name, and then renames it. If another process has created the folder meanwhile, keeps that folder.
 * Removes the temporary folders of killed processes.
 * @param {string} target
 * @param {(temporary: string) => unknown} fill
 */
export async function makeFolder(target, fill) {
  const parent = path.dirname(target);
  const prefix = `${path.basename(target)}.tmp-`;
  mkdirSync(parent, { recursive: true });
  for (const name of readdirSync(parent)) {
    if (name.startsWith(prefix) && !isRunning(Number.parseInt(name.slice(prefix.length), 10)))
      rmSync(path.join(parent, name), { recursive: true, force: true });
  }
  const temporary = path.join(parent, `${prefix}${process.pid}-${performance.now()}`);
  mkdirSync(temporary);
  try {
    await fill(temporary);
    if (!existsSync(target)) renameSync(temporary, target);
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}
