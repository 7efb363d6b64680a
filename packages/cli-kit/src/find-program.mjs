import { accessSync, constants, statSync } from 'node:fs';
import path from 'node:path';

/**
 * Finds a program on the PATH.
 * @param {string} command a name, or a path
 * @param {Record<string, string | undefined>} env
 * @returns {string | null} the path of the program; null if no executable file is found
 */
export function findProgram(command, env) {
  const places = command.includes('/') ? [command] : (env.PATH ?? '').split(path.delimiter).map((folder) => path.join(folder, command));
  return places.find(isExecutable) ?? null;
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
