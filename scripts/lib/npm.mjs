// The npm packages: checks that node_modules matches package-lock.json, and runs `npm ci`.

import { existsSync, lstatSync, readFileSync, readlinkSync } from 'node:fs';
import path from 'node:path';
import { CommandFailed, UserError } from './errors.mjs';
import { inProject, ROOT } from './paths.mjs';
import { run } from './run.mjs';

/**
 * Runs npm with the Node that runs this script.
 * @param {string[]} args
 * @param {{cwd?: string}} [options]
 */
export function npm(args, { cwd = ROOT } = {}) {
  // npm sets `npm_execpath` for the scripts that it starts. Without this variable, the npm on the PATH is used.
  const npmScript = process.env.npm_execpath;
  const [command, scriptArgs] = npmScript && path.basename(npmScript) === 'npm-cli.js' ? [process.execPath, [npmScript]] : ['npm', []];
  // The npm that started this script may have set the first two variables for this project.
  const env = { npm_config_local_prefix: undefined, npm_config_prefix: undefined, npm_config_loglevel: 'error' };
  return run(command, [...scriptArgs, ...args], { cwd, env });
}

/**
 * Whether node_modules has the locked version of every package of package-lock.json for this platform. npm records the installed packages in
 * node_modules/.package-lock.json.
 */
export function packagesMatchLockfile() {
  const installed = readLock(inProject('node_modules', '.package-lock.json'));
  const locked = readLock(inProject('package-lock.json'));
  if (!installed || !locked) return false;
  return Object.entries(locked).every(([place, wanted]) => {
    if (!place.includes('node_modules/')) return true;
    const installedPackage = installed[place];
    if (!installedPackage) return wanted.optional === true && !isForThisPlatform(wanted);
    return installedPackage.version === wanted.version && installedPackage.integrity === wanted.integrity && existsSync(inProject(place));
  });
}

/** Installs the packages of package-lock.json. */
export async function installPackages() {
  refuseLinks(ROOT);
  try {
    await npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund']);
  } catch (error) {
    // EUSAGE: the lock file does not match. Replaces npm's output, which is two screens of usage.
    if (!(error instanceof CommandFailed) || !error.output.includes('EUSAGE')) throw error;
    const missing = [...error.output.matchAll(/npm error ((?:Missing|Invalid): .*)/g)].map((match) => `  ${match[1]}`);
    throw new UserError(
      ['package-lock.json does not match package.json.', ...new Set(missing)].join('\n'),
      'Update the lock file with: npm install',
    );
  }
}

/**
 * Throws if the `node_modules` of a project or of one of its workspaces is a symbolic link. `npm ci` would delete the packages in the linked
 * folder, which belongs to another project.
 * @param {string} root of the project
 */
export function refuseLinks(root) {
  const { workspaces = [] } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  const folders = [root, ...workspaces.map((name) => path.join(root, name))].map((folder) => path.join(folder, 'node_modules'));
  const link = folders.find((folder) => lstatSync(folder, { throwIfNoEntry: false })?.isSymbolicLink());
  if (link === undefined) return;
  throw new UserError(
    `${link} is a symbolic link to ${readlinkSync(link)}, where \`npm ci\` would delete all packages.`,
    `Remove the link with: rm ${link}`,
  );
}

/** @param {string} file */
function readLock(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages;
  } catch {
    return undefined;
  }
}

/**
 * Whether npm installs an optional package on this platform. Packages for a specific libc are not checked, because the scripts do not use
 * such packages.
 * @param {{os?: string[], cpu?: string[], libc?: string[]}} entry
 */
function isForThisPlatform({ os = [], cpu = [], libc }) {
  return os.includes(process.platform) && cpu.includes(process.arch) && !libc;
}
