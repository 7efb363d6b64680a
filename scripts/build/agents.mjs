// Installs the coding agents of the tests from npm, in a folder outside of the repository.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { AGENTS } from '../../cli/src/agents.mjs';
import { CommandFailed, UserError } from '../lib/errors.mjs';
import { lockFor } from './lock-file.mjs';
import { withLock } from '../lib/lock.mjs';
import { npm } from '../lib/npm.mjs';
import { CACHE_DIR, inProject } from '../lib/paths.mjs';
import { runStep } from '../lib/progress.mjs';

/** The folder in which npm installs the agents. Each agent needs 0.4 GB. */
const FOLDER = process.env.HUB_AGENTS_DIR ?? path.join(CACHE_DIR, 'agents');

/** The versions of all packages of the agents. */
const LOCK_FILE = inProject('tests', 'e2e', 'agents', 'package-lock.json');

/** Allows install scripts, because opencode needs its script. Shortens the pauses between attempts: by default, npm waits minutes. */
const NPM_OPTIONS = [
  '--ignore-scripts=false',
  '--no-audit',
  '--no-fund',
  '--fetch-retry-mintimeout=1000',
  '--fetch-retry-maxtimeout=10000',
];

/** Returns the `package.json` and the lock file of an agent. @param {string} packageName with the version */
function filesOfAgent(packageName) {
  const [, name, version] = /^(.+)@(.+)$/.exec(packageName);
  const manifest = { private: true, dependencies: { [name]: version } };
  return { 'package.json': JSON.stringify(manifest), 'package-lock.json': JSON.stringify(lockFor(manifest, LOCK_FILE)) };
}

/**
 * Installs an agent in the version of `cli/src/agents.mjs`, unless this version is installed.
 * @param {string} name
 * @returns {Promise<string>} the folder of the agent's program
 * @throws {UserError} when npm cannot install the agent
 */
export async function installAgent(name) {
  const { package: packageName, command } = AGENTS[name];
  const files = filesOfAgent(packageName);
  const hash = createHash('sha256').update(Object.values(files).join()).digest('hex').slice(0, 8);
  const folder = path.join(FOLDER, `${packageName.replaceAll(/[^A-Za-z0-9.-]+/g, '_')}_${hash}`);
  const bin = path.join(folder, 'node_modules', '.bin');
  const isInstalled = () => existsSync(path.join(bin, command));
  if (isInstalled()) return bin;
  mkdirSync(folder, { recursive: true });
  await withLock(path.join(folder, '.lock'), `installation of ${packageName}`, async () => {
    // Another process may have installed the agent while this process waited for the lock.
    if (isInstalled()) return;
    for (const [file, text] of Object.entries(files)) writeFileSync(path.join(folder, file), text);
    // `npm ci` would refuse the lock file, because it lacks the programs for other platforms that npm did not find.
    await runStep(packageName, () => npm(['install', '--prefix', folder, ...NPM_OPTIONS], { cwd: folder }));
  }).catch((error) => {
    if (!(error instanceof CommandFailed)) throw error;
    const [, reason = error.message] = /npm error (?!code |errno |syscall )(.+)/.exec(error.output) ?? [];
    throw new UserError(`npm cannot install ${packageName}: ${reason}`, error.hint);
  });
  return bin;
}
