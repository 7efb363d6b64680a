// Installs the coding agents of the tests from npm, in a folder outside of the repository.

import { existsSync, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { AGENTS } from '../../cli/src/agents.mjs';
import { CommandFailed, UserError } from './errors.mjs';
import { withLock } from './lock.mjs';
import { npm } from './npm.mjs';
import { runStep } from './progress.mjs';

/** The folder of the packages, which need 0.4 GB for each agent. */
const FOLDER =
  process.env.HUB_AGENTS_DIR ?? path.join(process.env.XDG_CACHE_HOME || path.join(homedir(), '.cache'), 'session-gateway-hub', 'agents');

/** Runs install scripts, because opencode has a necessary one. Retries soon: without a connection, npm would wait minutes. */
const NPM_OPTIONS = [
  '--ignore-scripts=false',
  '--no-audit',
  '--no-fund',
  '--fetch-retry-mintimeout=1000',
  '--fetch-retry-maxtimeout=10000',
];

/**
 * Installs an agent in the version of `cli/src/agents.mjs`, unless this version is installed.
 * @param {string} name
 * @returns {Promise<string>} the folder of the agent's program
 * @throws {UserError} when npm cannot install the agent
 */
export async function installAgent(name) {
  const { package: wanted, command } = AGENTS[name];
  const folder = path.join(FOLDER, wanted.replaceAll(/[^A-Za-z0-9.-]+/g, '_'));
  const bin = path.join(folder, 'node_modules', '.bin');
  const isInstalled = () => existsSync(path.join(bin, command));
  if (isInstalled()) return bin;
  mkdirSync(folder, { recursive: true });
  await withLock(path.join(folder, '.lock'), `installation of ${wanted}`, async () => {
    // Another process may have installed the agent while this process waited for the lock.
    if (!isInstalled()) await runStep(wanted, () => npm(['install', '--prefix', folder, ...NPM_OPTIONS, wanted], { cwd: folder }));
  }).catch((error) => {
    if (!(error instanceof CommandFailed)) throw error;
    const [, reason = error.message] = /npm error (?!code |errno |syscall )(.+)/.exec(error.output) ?? [];
    throw new UserError(`npm cannot install ${wanted}: ${reason}`, error.hint);
  });
  return bin;
}
