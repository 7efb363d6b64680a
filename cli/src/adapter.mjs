/**
 * The adapter of an agent whose own program does not speak the protocol. npm fetches the adapter once, in the version of the table of
 * agents, into the folder of the state.
 */

import { execFile } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { findProgram } from 'session-gateway-cli-kit/find-program';
import { tryLock } from 'session-gateway-cli-kit/lock';
import { findNpmReason } from './acp-process.mjs';
import { programsOf } from './agents.mjs';
import { makeFolder } from './make-folder.mjs';

const PROGRESS_INTERVAL_MS = 3000;

/** How often a start looks whether another start has fetched the adapter. */
const POLL_MS = 250;

/** Install scripts are not needed. */
const NPM_OPTIONS = ['--ignore-scripts', '--no-audit', '--no-fund'];

const binFolder = (folder) => path.join(folder, 'node_modules', '.bin');

/**
 * Returns the place of an agent's adapter.
 * @param {import('./agents.mjs').AgentEntry} entry
 * @param {string} home the folder of the state
 */
export function adapterPlace({ package: name, command }, home) {
  const folder = path.join(home, 'adapters', name.replaceAll(/[^A-Za-z0-9.-]+/g, '_'));
  return { folder, program: path.join(binFolder(folder), command) };
}

/** Whether the agent runs without a question. @param {import('./agents.mjs').AgentEntry} entry */
export const isInstalled = (entry, env) => programsOf(entry).some((program) => findProgram(program, env));

/** Whether the start of an agent has to download something first. @param {import('./launch.mjs').Launch} launch */
export const mustDownload = ({ argv, adapterFolder }) => argv[0] === 'npx' || mustFetch(adapterFolder);

const mustFetch = (/** @type {string | undefined} */ folder) => folder !== undefined && !existsSync(binFolder(folder));

/**
 * Fetches the adapter of an agent, unless the adapter is present or the agent has none. If another process of this computer fetches the
 * adapter, waits for that process.
 * @param {import('./launch.mjs').Launch} launch
 * @param {{env: Record<string, string>, signal?: AbortSignal, log: {debug: (text: string) => void, info?: (text: string) => void}}} options
 * @throws {Error} when npm cannot fetch the adapter
 */
export async function fetchAdapter(launch, { env, signal, log }) {
  const { adapterFolder } = launch;
  if (!mustFetch(adapterFolder)) return;
  const report = log.info ?? log.debug;
  const lockFile = `${adapterFolder}.lock`;
  // Whether a process of another computer still runs is unknown, so its lock is ignored.
  const mustWait = (/** @type {{lock?: object, host?: string}} */ { lock, host }) => !lock && host === undefined;
  let attempt = tryLock(lockFile);
  if (mustWait(attempt)) report(`Waiting for process ${attempt.pid}, which fetches the adapter of ${launch.title}.`);
  for (; mustWait(attempt); attempt = tryLock(lockFile)) await delay(POLL_MS, undefined, { signal });
  try {
    if (mustFetch(adapterFolder)) await installAdapter(launch, { env, signal, report });
  } finally {
    attempt.lock?.release();
  }
}

/** @param {import('./launch.mjs').Launch} launch */
async function installAdapter({ title, entry, adapterFolder }, { env, signal, report }) {
  const { package: name, adapterMegabytes } = entry;
  report(`${title} is here; its adapter ${name} is fetched once (${adapterMegabytes} MB on disk).`);
  await makeFolder(adapterFolder, async (folder) => {
    const reportProgress = () => report(`Fetching the adapter: ${folderMegabytes(folder)} of ${adapterMegabytes} MB.`);
    const timer = setInterval(reportProgress, PROGRESS_INTERVAL_MS);
    try {
      await promisify(execFile)('npm', ['install', '--prefix', folder, ...NPM_OPTIONS, name], { cwd: folder, env, signal });
    } catch (error) {
      signal?.throwIfAborted();
      const reason = error.code === 'ENOENT' ? 'there is no npm on the PATH' : (findNpmReason(error.stderr) ?? error.message);
      throw new Error(`${title} did not start: npm cannot fetch its adapter ${name}: ${reason}`);
    } finally {
      clearInterval(timer);
    }
  });
}

function folderMegabytes(folder) {
  let bytes = 0;
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    // npm moves files while they are counted.
    if (entry.isFile()) bytes += statSync(path.join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.size ?? 0;
  }
  return Math.round(bytes / 1e6);
}
