/** Checks of the contents of a packed npm package. */

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import typescript from 'typescript';
import { ROOT } from '../../../scripts/lib/paths.mjs';

/** Returns the package.json of a tarball. @param {string} tarball path */
export const manifestOf = (tarball) => JSON.parse(execFileSync('tar', ['-xzOf', tarball, 'package/package.json'], { encoding: 'utf8' }));

/**
 * Returns the dependencies of a tarball that are not packages of the registry in their locked version. An installer asks the registry for
 * each dependency, so a name that is not registered lets anyone register it and run code.
 * @param {string} tarball path
 */
export function unregisteredDependencies(tarball) {
  const { packages } = JSON.parse(readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8'));
  const { dependencies, optionalDependencies, peerDependencies, bundleDependencies = [], bundledDependencies = [] } = manifestOf(tarball);
  const required = Object.entries({ ...dependencies, ...optionalDependencies, ...peerDependencies });
  // The lock file has checksums of the packages that npm has downloaded, and none of the repository's own packages.
  const isRegistered = ([name, version]) => {
    const locked = packages[`node_modules/${name}`];
    return locked?.integrity !== undefined && locked.version === version;
  };
  return [...required.filter((entry) => !isRegistered(entry)).map(([name]) => name), ...bundleDependencies, ...bundledDependencies];
}

/**
 * Returns the imports of a package's modules that are neither files of the package, nor packages in `dependencies`.
 * @param {string} folder with the files of the package
 * @param {string[]} files of the package, relative to the folder
 * @param {object} dependencies
 */
export function unresolvedImports(folder, files, dependencies) {
  const isResolved = (file, name) =>
    name.startsWith('node:') ||
    (name.startsWith('.') ? files.includes(path.posix.join(path.posix.dirname(file), name)) : Object.hasOwn(dependencies, name));
  return files
    .filter((file) => file.endsWith('.mjs'))
    .flatMap((file) =>
      typescript
        .preProcessFile(readFileSync(path.join(folder, file), 'utf8'), true, true)
        .importedFiles.filter(({ fileName }) => !isResolved(file, fileName))
        .map(({ fileName }) => `${file} imports ${fileName}`),
    );
}
