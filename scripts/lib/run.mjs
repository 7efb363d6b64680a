// Runs child processes, and ends them when this process ends.

import { AsyncLocalStorage } from 'node:async_hooks';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { holdLocksFor } from '../../packages/cli-kit/src/lock.mjs';
import { CommandFailed, UserError } from './errors.mjs';
import { startGroup } from './group.mjs';
import { ROOT } from './paths.mjs';
import { onStop } from './signals.mjs';

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();

/**
 * One call of {@link runParallel}.
 * @typedef {object} Scope
 * @property {Set<import('node:child_process').ChildProcess>} running
 * @property {boolean} hasFailed
 * @property {Scope | undefined} outer
 */

/** @type {AsyncLocalStorage<Scope>} */
const scopes = new AsyncLocalStorage();

/** Returns the scope of the caller, and all outer scopes. @returns {Scope[]} */
function currentScopes() {
  const found = [];
  for (let scope = scopes.getStore(); scope !== undefined; scope = scope.outer) found.push(scope);
  return found;
}

/** Time limit for programs to exit after SIGTERM. */
const END_TIMEOUT_MS = 5_000;

/** Limit on the output that an error contains, in characters. */
const MAX_ERROR_OUTPUT = 64 * 1024;

/**
 * Runs a program to its end.
 *
 * @param {string} command
 * @param {string[]} args
 * @param {object} [options]
 * @param {string} [options.cwd] the project's root by default
 * @param {Record<string, string | undefined>} [options.env] added to the environment; `undefined` removes a variable
 * @param {boolean} [options.show] whether to connect the program to this terminal instead of collecting its output
 * @param {(line: string) => boolean | void} [options.onLine] called for each line, without colours. A carriage return also ends a line.
 *   If `onLine` returns true, the output of an error does not contain the line
 * @param {number} [options.priority] one of `os.constants.priority`; child processes of the program inherit it
 * @returns {Promise<string>} the standard output; empty with `show`
 * @throws {CommandFailed} when the exit code is not 0
 * @throws {UserError} when the program is not found
 */
export async function run(command, args, { cwd = ROOT, env = {}, show = false, onLine, priority } = {}) {
  const enclosingScopes = currentScopes();
  if (enclosingScopes.some(({ hasFailed }) => hasFailed))
    throw new UserError(`\`${command}\` was not started, because another step failed.`);
  if (running.size === 0) onStop(stopAll);
  const options = { cwd, env: environmentWith(env), windowsHide: true };
  // With `show`, the program stays in this process group, so that it receives the terminal's Ctrl-C.
  const { child, release: stopGuard } = show
    ? { child: spawn(command, args, { ...options, stdio: 'inherit' }) }
    : startGroupThatHoldsLocks(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  // A program that could not be started has no process id. Such a program is not added, because killing it would signal this process's own group.
  const programSets = child.pid === undefined ? [] : [running, ...enclosingScopes.map((scope) => scope.running)];
  programSets.forEach((set) => set.add(child));
  if (priority !== undefined && child.pid !== undefined) setPriority(child.pid, priority);

  let stdout = '';
  let errorOutput = '';
  const collectLine = (line) => {
    if (onLine?.(stripVTControlCharacters(line)) === true) return;
    errorOutput = `${errorOutput}${line}\n`.slice(-MAX_ERROR_OUTPUT);
  };
  if (!show) {
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      stdout += chunk;
    });
    readLines(child.stdout, collectLine);
    readLines(child.stderr, collectLine);
  }

  const { code, signal } = await new Promise((resolve, reject) => {
    child.once('error', (error) => reject(startError(command, error)));
    child.once('close', (exitCode, exitSignal) => resolve({ code: exitCode, signal: exitSignal }));
  }).finally(() => {
    programSets.forEach((set) => set.delete(child));
    stopGuard?.();
  });

  if (code !== 0) throw new CommandFailed([command, ...args].join(' '), code, signal, errorOutput);
  return stdout;
}

/**
 * Runs a program on this terminal. Prints nothing after a failure, because the program has printed its error.
 * @param {string} command
 * @param {string[]} args
 * @param {{env?: Record<string, string | undefined>}} [options] of {@link run}
 * @returns {Promise<number>} the exit code of the program
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
 * Runs a program synchronously.
 * @param {string} command
 * @param {string[]} args
 * @returns {string | undefined} the trimmed standard output; undefined when the program is missing or fails
 */
export function outputOf(command, args) {
  const { status, stdout } = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8', windowsHide: true });
  return status === 0 ? stdout.trim() : undefined;
}

/** Returns this process's environment with changes. @param {Record<string, string | undefined>} added `undefined` removes a variable */
export function environmentWith(added) {
  const env = { ...process.env, ...added };
  for (const [name, value] of Object.entries(env)) if (value === undefined) delete env[name];
  return env;
}

/**
 * Calls `onLine` for each line of a stream. A carriage return also ends a line, because progress bars use it.
 * @param {import('node:stream').Readable} stream
 * @param {(line: string) => void} onLine
 */
export function readLines(stream, onLine) {
  let incompleteLine = '';
  stream.setEncoding('utf8');
  stream.on('data', (chunk) => {
    const lines = (incompleteLine + chunk).split(/\r\n|[\r\n]/);
    incompleteLine = lines.pop() ?? '';
    lines.forEach(onLine);
  });
  stream.on('end', () => {
    if (incompleteLine) onLine(incompleteLine);
  });
}

/**
 * @param {string} command
 * @param {NodeJS.ErrnoException} error
 */
function startError(command, error) {
  if (error.code !== 'ENOENT') return error;
  const hint = ['cargo', 'rustup', 'rustc'].includes(command)
    ? 'Install Rust with rustup (https://rustup.rs), open a new terminal and try again.'
    : undefined;
  return new UserError(`The program \`${command}\` was not found.`, hint);
}

/**
 * Starts a program as a process group that ends with this process. The locks of this process stay held until the group has ended, too.
 * @param {string} command
 * @param {string[]} args
 * @param {import('node:child_process').SpawnOptions} options
 */
function startGroupThatHoldsLocks(command, args, options) {
  const group = startGroup(command, args, options);
  holdLocksFor(group.pids);
  return group;
}

/**
 * Runs tasks in parallel. When a task fails, ends the programs of the other tasks and throws the error.
 * @template {(() => Promise<unknown>)[]} Tasks
 * @param {Tasks} tasks
 * @returns {Promise<{[at in keyof Tasks]: Awaited<ReturnType<Tasks[at]>>}>}
 */
export async function runParallel(...tasks) {
  const scope = { running: new Set(), hasFailed: false, outer: scopes.getStore() };
  const started = scopes.run(scope, () => tasks.map((task) => task()));
  try {
    return /** @type {any} */ (await Promise.all(started));
  } catch (error) {
    scope.hasFailed = true;
    await endPrograms(scope.running);
    await Promise.allSettled(started);
    throw error;
  }
}

/**
 * Ends programs and waits until they have exited.
 * @param {Set<import('node:child_process').ChildProcess>} programs
 */
async function endPrograms(programs) {
  const exited = [...programs].map((child) => {
    child.kill('SIGTERM');
    return once(child, 'exit');
  });
  await Promise.race([Promise.all(exited), sleep(END_TIMEOUT_MS, undefined, { ref: false })]);
}

async function stopAll() {
  console.log('\nStopped. Finished steps are kept.');
  await endPrograms(running);
}
