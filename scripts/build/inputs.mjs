// Hashes files, to detect changed inputs of builds and checks.

import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from '../lib/paths.mjs';

/**
 * Adds the names and contents of files and folders to a hash.
 * @param {import('node:crypto').Hash} hash
 * @param {string[]} names paths relative to `root`
 * @param {string} [root]
 * @returns {import('node:crypto').Hash} the same hash
 */
export function addFiles(hash, names, root = ROOT) {
  for (const file of names.flatMap((name) => listFiles(path.join(root, name)))) {
    hash.update(`\0${path.relative(root, file)}\0`);
    hash.update(readFileSync(file));
  }
  return hash;
}

/** Names of files and folders that builds and tests generate next to sources. */
const GENERATED = /^(?:\..*|artifacts|corpus|coverage|dist|node_modules|target|types)$/;

/**
 * @param {string} root a file or folder, which may be missing
 * @returns {string[]} the files in a fixed order, without generated files
 */
function listFiles(root) {
  const info = statSync(root, { throwIfNoEntry: false });
  if (!info) return [];
  if (!info.isDirectory()) return [root];
  return readdirSync(root)
    .filter((name) => !GENERATED.test(name))
    .sort()
    .flatMap((name) => listFiles(path.join(root, name)));
}
