// Makes the two npm packages: copies the files of a package to a folder, and packs the folder to a tarball.

import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { npm } from '../npm.mjs';
import { inProject } from '../paths.mjs';
import { AGENT_FILES, HUB_DEPENDENCIES, HUB_FILES, KIT_FILES, PACKAGES_FOLDER } from './files.mjs';

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
    bin: { [name]: 'scripts/cli.mjs' },
    files: HUB_FILES,
    dependencies,
  });
  return pack(folder);
}

/**
 * Packs the CLI with the kit as a bundled dependency.
 * @returns {Promise<Packed>}
 */
export function packAgent() {
  const { scripts: _, devDependencies: _dev, ...manifest } = readJson('cli', 'package.json');
  const kit = readJson('packages', 'cli-kit', 'package.json');
  const folder = stage('agent', 'cli', AGENT_FILES);
  cpSync(inProject('LICENSE'), path.join(folder, 'LICENSE'));
  const kitFolder = path.join(folder, 'node_modules', kit.name);
  copy(inProject('packages', 'cli-kit'), kitFolder, KIT_FILES);
  const { dependencies, devDependencies: __, scripts: ___, ...kitManifest } = kit;
  writePackage(kitFolder, kitManifest);
  writePackage(folder, {
    ...manifest,
    ...repositoryOf(),
    files: AGENT_FILES,
    dependencies: { ...manifest.dependencies, ...dependencies },
    bundleDependencies: [kit.name],
  });
  return pack(folder);
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

/** @param {string} folder @param {object} content */
function writePackage(folder, content) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, 'package.json'), `${JSON.stringify(content, null, 2)}\n`);
}

/**
 * @param {string} folder
 * @returns {Promise<Packed>}
 */
async function pack(folder) {
  const destination = inProject(PACKAGES_FOLDER);
  const [{ filename, size, files }] = JSON.parse(await npm(['pack', '--json', '--pack-destination', destination], { cwd: folder }));
  return { file: path.join(destination, filename), size, files: files.map((file) => file.path).sort() };
}
