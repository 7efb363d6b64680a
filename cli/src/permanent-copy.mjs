/** A permanent copy of this program for the user service: npm may delete the copy that npx made. */

import { cpSync, existsSync } from 'node:fs';
import path from 'node:path';
import { makeFolder } from './make-folder.mjs';

/** The folder of npx in npm's cache. Each subfolder contains the packages of one command. */
const NPX_FOLDER = '_npx';

/**
 * Returns the permanent place of this program. A program that npx started gets a copy, with its packages, in the folder of the state.
 * @param {string} entry path of the main module
 * @param {{stateFolder: string, version: string}} options
 * @returns {{entry: string, copy: () => Promise<void>}} `entry`: the permanent path of the main module; `copy` makes the copy, unless the copy of
 *   this version exists, or npx did not start this program
 */
export function permanentPlace(entry, { stateFolder, version }) {
  const names = entry.split(path.sep);
  const npxIndex = names.lastIndexOf(NPX_FOLDER);
  if (npxIndex < 0) return { entry, copy: async () => {} };
  const source = names.slice(0, npxIndex + 2).join(path.sep);
  const target = path.join(stateFolder, 'program', version);
  const copy = async () => {
    if (!existsSync(target)) await makeFolder(target, (folder) => cpSync(source, folder, { recursive: true, verbatimSymlinks: true }));
  };
  return { entry: path.join(target, ...names.slice(npxIndex + 2)), copy };
}
