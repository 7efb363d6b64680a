// Makes the folders of the data.

import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { UserError } from './errors.mjs';
import { IS_PACKAGE } from './paths.mjs';

/**
 * Makes a folder and its parents, each by itself: `recursive` of Node never returns where a file system refuses folders with ENOENT, such as
 * in /proc.
 * Only this user may read the folders: they contain the conversations and the hub's keys.
 * @param {string} folder
 * @throws {UserError} if the system refuses
 */
export function makeFolder(folder) {
  if (existsSync(folder)) return;
  makeFolder(path.dirname(folder));
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (error.code === 'EEXIST') return;
    const advice = IS_PACKAGE ? 'Choose another folder with --data DIR, or change the owner of its parent.' : undefined;
    throw new UserError(`The folder ${folder} for the data of the hub cannot be made: ${error.code}.`, advice);
  }
}
