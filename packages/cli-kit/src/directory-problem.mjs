/** Why a program cannot run in a directory. Node reports a missing directory as a missing program. */

import { accessSync, constants, statSync } from 'node:fs';

/** @param {string} directory @returns {string | null} a sentence; null if a program can run there */
export function describeDirectoryProblem(directory) {
  try {
    if (!statSync(directory).isDirectory()) return `${directory} is not a directory.`;
    accessSync(directory, constants.R_OK | constants.X_OK);
    return null;
  } catch ({ code, message }) {
    if (code === 'ENOENT' || code === 'ENOTDIR') return `There is no directory ${directory}.`;
    return code === 'EACCES' || code === 'EPERM' ? `This user may not read the directory ${directory}.` : `${directory}: ${message}`;
  }
}
