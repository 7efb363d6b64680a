// Makes the lock file of a package from a larger one.

import { readFileSync } from 'node:fs';
import { UserError } from '../lib/errors.mjs';

/**
 * Returns the part of a lock file that a package needs, with the optional packages of all platforms, and without the address of a registry.
 * @param {{name?: string, version?: string, license?: string, engines?: object, bin?: object, dependencies: Record<string, string>}} manifest of
 *   the package, with the exact versions of its dependencies
 * @param {string} file the lock file
 * @throws {UserError} when the file does not have a dependency in its version
 */
export function lockFor({ name, version, license, engines, bin, dependencies }, file) {
  const { packages } = JSON.parse(readFileSync(file, 'utf8'));
  /** Whether a package is optional, by its place. @type {Map<string, boolean>} */
  const found = new Map();
  const add = (/** @type {string} */ from, /** @type {string[]} */ names, /** @type {boolean} */ isOptional) => {
    for (const dependency of names) {
      const place = placesOf(dependency, from).find((candidate) => packages[candidate]);
      // npm leaves out what the registry did not have.
      if (place === undefined && isOptional) continue;
      const { version: locked } = packages[place] ?? {};
      if (locked === undefined || (from === '' && locked !== dependencies[dependency]))
        throw new UserError(`${file} does not have ${dependency}${from === '' ? ` ${dependencies[dependency]}` : ''}.`);
      if ([false, isOptional].includes(found.get(place))) continue;
      found.set(place, isOptional);
      const { dependencies: required = {}, optionalDependencies = {}, peerDependencies = {}, peerDependenciesMeta = {} } = packages[place];
      const peers = Object.keys(peerDependencies).filter((peer) => !peerDependenciesMeta[peer]?.optional);
      add(place, [...Object.keys(required), ...peers], isOptional);
      add(place, Object.keys(optionalDependencies), true);
    }
  };
  add('', Object.keys(dependencies), false);
  const entryOf = (/** @type {string} */ place) => {
    const { dev: _, devOptional: __, optional: ___, peer: ____, resolved: _____, ...entry } = packages[place];
    return found.get(place) ? { ...entry, optional: true } : entry;
  };
  const entries = [...found.keys()].sort().map((place) => [place, entryOf(place)]);
  const root = { name, version, license, dependencies, bin, engines };
  return { name, version, lockfileVersion: 3, requires: true, packages: { '': root, ...Object.fromEntries(entries) } };
}

/** Returns the places where a package finds a dependency, the nearest first. @param {string} name @param {string} from the place of the package */
function placesOf(name, from) {
  const parents = from.split('/node_modules/').map((_, i, parts) => parts.slice(0, parts.length - i).join('/node_modules/'));
  return [...parents.filter((parent) => parent !== '').map((parent) => `${parent}/node_modules/${name}`), `node_modules/${name}`];
}
