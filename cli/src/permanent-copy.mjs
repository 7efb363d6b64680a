/** A copy of this program for the user service: npx deletes its own copy at any time. */

import { cpSync, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';

/** The folder of npx in npm's cache. Each folder in it has the packages of one command. */
const NPX_FOLDER = '_npx';

/**
 * Returns where this program stays. If npx started it, that is a copy with its packages in the folder of the state.
 * @param {string} entry path of the main module
 * @param {{stateFolder: string, version: string}} options
 * @returns {{entry: string, copy: () => void}} `entry`: the path of the main module that stays; `copy` makes the copy, unless this
 *   version is there or none is needed
 */
export function permanentPlace(entry, { stateFolder, version }) {
  const parts = entry.split(path.sep);
  const at = parts.lastIndexOf(NPX_FOLDER);
  if (at < 0) return { entry, copy: () => {} };
  const source = parts.slice(0, at + 2).join(path.sep);
  const target = path.join(stateFolder, 'program', version);
  const copy = () => {
    if (!existsSync(target)) copyFolder(source, target);
  };
  return { entry: path.join(target, ...parts.slice(at + 2)), copy };
}

/** Copies a folder, so that an interrupted copy is never used. @param {string} source @param {string} target */
function copyFolder(source, target) {
  const temporary = `${target}.${process.pid}`;
  mkdirSync(path.dirname(target), { recursive: true });
  try {
    cpSync(source, temporary, { recursive: true, verbatimSymlinks: true });
    renameSync(temporary, target);
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}
