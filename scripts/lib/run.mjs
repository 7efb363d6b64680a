// Runs child processes, and ends them when this process ends.

import { AsyncLocalStorage } from 'node:async_hooks';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { CommandFailed, UserError } from './errors.mjs';
import { startGroup } from './group.mjs';
import { holdLocksFor } from './lock.mjs';
import { ROOT } from './paths.mjs';
import { onStop } from './signals.mjs';

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();

/**
 * The tasks of one call of {@link together}.
 * @typedef {object} Scope
 * @property {Set<import('node:child_process').ChildProcess>} running
 * @property {boolean} hasFailed
 * @property {Scope | undefined} outer
 */

/** @type {AsyncLocalStorage<Scope>} */
const scopes = new AsyncLocalStorage();

/** The scope of the caller and those around it. @returns {Scope[]} */
function currentScopes() {
  const found = [];
  for (let scope = scopes.getStore(); scope !== undefined; scope = scope.outer) found.push(scope);
  return found;
}

/** How long programs that are told to end may take, in milliseconds. */
const END_MS = 5_000;

/** The last of a quiet program's output is kept for the report of its failure. */
const KEPT_OUTPUT = 64 * 1024;

/**
 * Runs a program to its end.
 *
 * @param {string} command
 * @param {string[]} args
 * @param {object} [options]
 * @param {string} [options.cwd] the project's root by default
 * @param {Record<string, string | undefined>} [options.env] added to the environment; `undefined` takes out
 * @param {boolean} [options.show] let it write to this terminal, instead of keeping its output for an error
 * @param {(line: string) => boolean | void} [options.onLine] hears every line (without colours, also those
 *   that a carriage return ends); `true` keeps the line out of an error's output
 * @param {number} [options.priority] of `os.constants.priority`, for it and what it starts
 * @returns {Promise<string>} its standard output (empty when shown)
 * @throws {CommandFailed} when its exit code is not 0
 * @throws {UserError} when there is no such program
 */
export async function run(command, args, { cwd = ROOT, env = {}, show = false, onLine, priority } = {}) {
  const within = currentScopes();
  if (within.some(({ hasFailed }) => hasFailed)) throw new UserError(`\`${command}\` is not started, because another step failed.`);
  if (running.size === 0) onStop(stopAll);
  const options = { cwd, env: environment(env), windowsHide: true };
  // What shares this terminal stays in its process group, so that the terminal's keys reach it.
  const { child, release } = show
    ? { child: spawn(command, args, { ...options, stdio: 'inherit' }) }
    : startOwned(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  // Node would send a signal for a program that could not be started to its own process group.
  const sets = child.pid === undefined ? [] : [running, ...within.map((scope) => scope.running)];
  sets.forEach((set) => set.add(child));
  if (priority !== undefined && child.pid !== undefined) setPriority(child.pid, priority);

  let stdout = '';
  let kept = '';
  const keep = (line) => {
    if (onLine?.(stripVTControlCharacters(line)) === true) return;
    kept = `${kept}${line}\n`.slice(-KEPT_OUTPUT);
  };
  if (!show) {
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      stdout += chunk;
    });
    readLines(child.stdout, keep);
    readLines(child.stderr, keep);
  }

  const { code, signal } = await new Promise((resolve, reject) => {
    child.once('error', (error) => reject(notStarted(command, error)));
    child.once('close', (exitCode, exitSignal) => resolve({ code: exitCode, signal: exitSignal }));
  }).finally(() => {
    sets.forEach((set) => set.delete(child));
    release?.();
  });

  if (code !== 0) throw new CommandFailed([command, ...args].join(' '), code, signal, kept);
  return stdout;
}

/**
 * Runs a program that speaks to the person itself: on this terminal, and nothing is added to what it says of a failure.
 * @param {string} command
 * @param {string[]} args
 * @param {{env?: Record<string, string | undefined>}} [options] as of {@link run}
 * @returns {Promise<number>} its exit code
 */
export async function runOnTerminal(command, args, options = {}) {
  try {
    await run(command, args, { ...options, show: true });
    return 0;
  } catch (error) {
    if (error instanceof CommandFailed) return error.code ?? 1;
    throw error;
  }
}

/**
 * What a short program prints.
 * @param {string} command
 * @param {string[]} args
 * @returns {string | undefined} its trimmed standard output; nothing when it is missing or fails
 */
export function outputOf(command, args) {
  const answer = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8', windowsHide: true });
  return answer.status === 0 ? answer.stdout.trim() : undefined;
}

/** @param {Record<string, string | undefined>} added */
export function environment(added) {
  const env = { ...process.env, ...added };
  for (const [name, value] of Object.entries(env)) if (value === undefined) delete env[name];
  return env;
}

/**
 * Calls `onLine` for every line of a stream, and for every state of a line that is rewritten in place.
 * @param {import('node:stream').Readable} stream
 * @param {(line: string) => void} onLine
 */
export function readLines(stream, onLine) {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (chunk) => {
    const lines = (rest + chunk).split(/\r\n|[\r\n]/);
    rest = lines.pop() ?? '';
    lines.forEach(onLine);
  });
  stream.on('end', () => {
    if (rest) onLine(rest);
  });
}

/**
 * @param {string} command
 * @param {NodeJS.ErrnoException} error
 */
function notStarted(command, error) {
  if (error.code !== 'ENOENT') return error;
  const hint = ['cargo', 'rustup', 'rustc'].includes(command)
    ? 'Install Rust with rustup (https://rustup.rs), open a new terminal and start this again.'
    : undefined;
  return new UserError(`The program \`${command}\` was not found.`, hint);
}

/**
 * Starts a program as a process group that ends with this process. It also holds this process's locks.
 * @param {string} command
 * @param {string[]} args
 * @param {import('node:child_process').SpawnOptions} options
 */
function startOwned(command, args, options) {
  const group = startGroup(command, args, options);
  holdLocksFor(group.pids);
  return group;
}

/**
 * Runs tasks side by side. When one fails, the programs of the others are ended, and its error is thrown.
 * @template T
 * @param {(() => Promise<T>)[]} tasks
 * @returns {Promise<T[]>}
 */
export async function together(...tasks) {
  const scope = { running: new Set(), hasFailed: false, outer: scopes.getStore() };
  const started = scopes.run(scope, () => tasks.map((task) => task()));
  try {
    return await Promise.all(started);
  } catch (error) {
    scope.hasFailed = true;
    await end(scope.running);
    await Promise.allSettled(started);
    throw error;
  }
}

/**
 * Ends programs, and waits until they are gone.
 * @param {Set<import('node:child_process').ChildProcess>} programs
 */
async function end(programs) {
  const gone = [...programs].map((child) => {
    child.kill('SIGTERM');
    return once(child, 'exit');
  });
  await Promise.race([Promise.all(gone), sleep(END_MS, undefined, { ref: false })]);
}

async function stopAll() {
  console.log('\nStopped. What was finished is kept.');
  await end(running);
}
