// npm packages: is node_modules what the lock file says, and `npm ci` when it is not.

import { existsSync, readFileSync } from 'node:fs';
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
  // npm tells its scripts where it is; a script that was started without npm finds it on the PATH.
  const cli = process.env.npm_execpath;
  const [command, first] = cli && path.basename(cli) === 'npm-cli.js'
    ? [process.execPath, [cli]]
    : ['npm', []];
  // What the outer npm says about its own project must not lead this one there.
  const env = { npm_config_local_prefix: undefined, npm_config_prefix: undefined, npm_config_loglevel: 'error' };
  return run(command, [...first, ...args], { cwd, env });
}

/**
 * Whether every package of package-lock.json that belongs on this machine is in node_modules, in the
 * locked version. npm itself records what it installed in node_modules/.package-lock.json.
 */
export function packagesMatchLock() {
  const installed = readLock(inProject('node_modules', '.package-lock.json'));
  const locked = readLock(inProject('package-lock.json'));
  if (!installed || !locked) return false;
  return Object.entries(locked).every(([place, want]) => {
    if (!place.includes('node_modules/')) return true;
    const have = installed[place];
    if (!have) return want.optional === true && !belongsHere(want);
    return have.version === want.version && have.integrity === want.integrity && existsSync(inProject(place));
  });
}

/** Installs exactly what package-lock.json says. */
export async function installPackages() {
  try {
    await npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund']);
  } catch (error) {
    // npm's own report of this case is two screens of usage.
    if (!(error instanceof CommandFailed) || !error.output.includes('EUSAGE')) throw error;
    const missing = [...error.output.matchAll(/npm error ((?:Missing|Invalid): .*)/g)].map((match) => `  ${match[1]}`);
    throw new UserError(
      ['package.json and package-lock.json do not agree.', ...new Set(missing)].join('\n'),
      'Bring the lock file up to date with: npm install',
    );
  }
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
 * Whether npm would install an optional package here. Those that also ask for a libc are left to npm:
 * nothing that the scripts start depends on one.
 * @param {{os?: string[], cpu?: string[], libc?: string[]}} entry
 */
function belongsHere({ os = [], cpu = [], libc }) {
  return os.includes(process.platform) && cpu.includes(process.arch) && !libc;
}
