// Handles SIGINT, SIGTERM and SIGHUP: ends the started programs, then the script.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };

/** @type {(() => Promise<number | void>) | undefined} */
let handler;
let installed = false;
let underWay = false;
let since = 0;

/** npm passes on a Ctrl-C that the terminal has sent already: what comes so soon is the same key. */
const SAME_KEY_MS = 1000;

/** Whether a signal is ending this script: failures that follow from it are no news. */
export const isStopping = () => underWay;

/**
 * Sets what a signal does before the script ends. The last one set counts; a second signal does not wait for it.
 * @param {() => Promise<number | void>} stop may answer the exit code; by default it is the signal's own
 */
export function onStop(stop) {
  handler = stop;
  if (installed) return;
  installed = true;
  for (const [signal, code] of Object.entries(EXIT_CODES)) process.on(signal, () => end(code));
}

/** @param {number} code */
async function end(code) {
  if (underWay && Date.now() - since < SAME_KEY_MS) return;
  if (underWay) process.exit(code);
  underWay = true;
  since = Date.now();
  try {
    process.exit((await handler?.()) ?? code);
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
}

/** The interval of the check that npm is alive, in milliseconds. */
const LOOK_AT_NPM_MS = 500;

/**
 * Ends this script with the npm that started it. npm starts a script through a shell: a signal ends that shell alone, and a
 * killed npm ends neither.
 */
export function endWithNpm() {
  const npm = npmProcess();
  if (npm === undefined) return;
  const shell = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === shell && isRunning(npm)) return;
    clearInterval(timer);
    end(EXIT_CODES.SIGTERM);
  }, LOOK_AT_NPM_MS);
  timer.unref();
}

/**
 * The process of the npm that started this script, if one did: the parent of the shell in between, or this one's own parent
 * where the shell replaced itself with the script (exec).
 * @returns {number | undefined}
 */
export function npmProcess() {
  if (!process.env.npm_lifecycle_event || process.platform === 'win32') return undefined;
  const [parent, name] = parentAndName(process.ppid);
  if (parent === undefined) return undefined;
  return /(^|\/)-?(ba|da|k|z|a)?sh$/.test(name) ? Number(parent) : process.ppid;
}

/**
 * @param {number} pid
 * @returns {string[]} the id of its parent, and the name of its program; empty where that is not known
 */
function parentAndName(pid) {
  if (process.platform !== 'linux') {
    const { stdout } = spawnSync('ps', ['-o', 'ppid=,comm=', '-p', String(pid)], { encoding: 'utf8' });
    return stdout?.trim().match(/^(\d+)\s+(.*)$/)?.slice(1) ?? [];
  }
  try {
    const [, name, parent] = readFileSync(`/proc/${pid}/stat`, 'utf8').match(/^\d+ \(([^]*)\) \S+ (\d+) /) ?? [];
    return [parent, name];
  } catch {
    return [];
  }
}

/** @param {number} pid */
export function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}
