// The folders of the cache that grow with each run.

import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { CACHE_DIR } from '../lib/paths.mjs';

/**
 * Creates a folder of the cache if it is missing, and deletes all but its newest entries.
 * @param {string} name
 * @param {number} count of the entries that stay
 * @returns {string} the path of the folder
 */
export function cacheFolder(name, count) {
  const folder = path.join(CACHE_DIR, name);
  mkdirSync(folder, { recursive: true });
  const places = readdirSync(folder).map((entry) => path.join(folder, entry));
  // Another process may delete the same entries.
  const ages = places.map((place) => ({ place, ms: statSync(place, { throwIfNoEntry: false })?.mtimeMs ?? 0 }));
  const old = ages.toSorted((one, other) => other.ms - one.ms).slice(count);
  for (const { place } of old) rmSync(place, { recursive: true, force: true });
  return folder;
}
