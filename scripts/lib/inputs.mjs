// What a build is made of: a hash over files tells whether anything changed.

import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { inProject, ROOT } from './paths.mjs';

/**
 * Adds files and folders to a hash: their names and what is in them.
 * @param {import('node:crypto').Hash} hash
 * @param {string[]} names paths below the project's root
 * @returns {import('node:crypto').Hash} the same hash
 */
export function addFiles(hash, names) {
  for (const file of names.flatMap((name) => filesBelow(inProject(name)))) {
    hash.update(`\0${path.relative(ROOT, file)}\0`);
    hash.update(readFileSync(file));
  }
  return hash;
}

/** What builds and tests make below a folder of sources. */
const MADE = /^(?:\..*|artifacts|corpus|coverage|dist|node_modules|target|types)$/;

/**
 * @param {string} place a file or folder; none when it does not exist
 * @returns {string[]} in a fixed order, without what is made
 */
function filesBelow(place) {
  const info = statSync(place, { throwIfNoEntry: false });
  if (!info) return [];
  if (!info.isDirectory()) return [place];
  return readdirSync(place)
    .filter((name) => !MADE.test(name))
    .sort()
    .flatMap((name) => filesBelow(path.join(place, name)));
}
