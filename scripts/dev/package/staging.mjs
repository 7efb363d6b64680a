// Makes the two npm packages: copies the files of a package to a folder, and packs the folder to a tarball.

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { lockFor } from '../../build/lock-file.mjs';
import { npm } from '../../lib/npm.mjs';
import { inProject } from '../../lib/paths.mjs';
import { AGENT_FILES, HUB_DEPENDENCIES, HUB_FILES, KIT_FOLDER, PACKAGES_FOLDER, SHRINKWRAP } from './files.mjs';
import { withoutMissingFiles } from './readme.mjs';

/**
 * @typedef {object} Packed
 * @property {string} file the path of the tarball
 * @property {number} size of the tarball in bytes
 * @property {string[]} files the paths in the package, sorted
 */

/** Returns the repository of a package, which npm compares with its attestation; empty outside of GitHub Actions. */
function repositoryOf() {
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: name } = process.env;
  return server && name ? { repository: { type: 'git', url: `git+${server}/${name}.git` } } : {};
}

const readJson = (...place) => JSON.parse(readFileSync(inProject(...place), 'utf8'));

/** Returns the locked version of a package. @param {string} name */
function lockedVersion(name) {
  return readJson('package-lock.json').packages[`node_modules/${name}`].version;
}

/**
 * Packs the hub.
 * @returns {Promise<Packed>}
 */
export function packHub() {
  const { name, version, description, license, type } = readJson('package.json');
  const folder = stage('hub', '.', HUB_FILES);
  const dependencies = Object.fromEntries(HUB_DEPENDENCIES.map((dependency) => [dependency, lockedVersion(dependency)]));
  writePackage(folder, {
    name,
    version,
    description,
    license,
    ...repositoryOf(),
    type,
    // The Node version that wrangler needs.
    engines: { node: '>=22' },
    bin: { [name]: 'scripts/product/cli.mjs' },
    files: HUB_FILES,
    dependencies,
  });
  return pack(folder);
}

/**
 * Packs the CLI with the files of the kit. The package does not depend on the kit by its name, which is not on npm: installers other than
 * npm ask the registry also for bundled dependencies, and anyone can register the name.
 * @returns {Promise<Packed>}
 */
export function packAgent() {
  const { scripts: _, devDependencies: __, ...manifest } = readJson('cli', 'package.json');
  const kit = readJson('packages', 'cli-kit', 'package.json');
  const { [kit.name]: ___, ...dependencies } = { ...manifest.dependencies, ...kit.dependencies };
  const folder = stage('agent', 'cli', AGENT_FILES);
  replaceKitImports(folder, kit.name);
  copy(inProject(), folder, ['LICENSE', KIT_FOLDER]);
  writePackage(folder, { ...manifest, ...repositoryOf(), files: [...AGENT_FILES, KIT_FOLDER], dependencies });
  return pack(folder);
}

/** Replaces the name of the kit in imports by the path of its folder. @param {string} folder @param {string} kitName */
function replaceKitImports(folder, kitName) {
  const specifier = new RegExp(`(?<=['"])${kitName}/([\\w-]+)(?=['"])`, 'g');
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.mjs'))) {
    const text = readFileSync(path.join(folder, file), 'utf8');
    const kitFolder = path.posix.relative(path.posix.dirname(file.replaceAll(path.sep, '/')), KIT_FOLDER);
    const relative = kitFolder.startsWith('.') ? kitFolder : `./${kitFolder}`;
    writeFileSync(path.join(folder, file), text.replace(specifier, `${relative}/$1.mjs`));
  }
}

/**
 * Copies the files of a package to its folder, which is emptied.
 * @param {string} name of the folder
 * @param {string} source folder in the repository
 * @param {string[]} files
 */
function stage(name, source, files) {
  const folder = inProject(PACKAGES_FOLDER, name);
  rmSync(folder, { recursive: true, force: true });
  copy(inProject(source), folder, files);
  return folder;
}

/** @param {string} from @param {string} to @param {string[]} files */
function copy(from, to, files) {
  for (const file of files) cpSync(path.join(from, file), path.join(to, file), { recursive: true });
}

/**
 * Writes the `package.json` of a package, and the lock file that its users get.
 * @param {string} folder
 * @param {any} content of the `package.json`, without the lock file
 */
function writePackage(folder, content) {
  mkdirSync(folder, { recursive: true });
  const files = {
    'package.json': { ...content, files: [...content.files, SHRINKWRAP] },
    [SHRINKWRAP]: lockFor(content, inProject('package-lock.json')),
  };
  for (const [name, value] of Object.entries(files)) writeFileSync(path.join(folder, name), `${JSON.stringify(value, null, 2)}\n`);
}

/**
 * @param {string} folder
 * @returns {Promise<Packed>}
 */
async function pack(folder) {
  const readme = path.join(folder, 'README.md');
  writeFileSync(
    readme,
    withoutMissingFiles(readFileSync(readme, 'utf8'), (file) => existsSync(path.join(folder, file))),
  );
  const destination = inProject(PACKAGES_FOLDER);
  const [{ filename, size, files }] = JSON.parse(await npm(['pack', '--json', '--pack-destination', destination], { cwd: folder }));
  return { file: path.join(destination, filename), size, files: files.map((file) => file.path).sort() };
}
