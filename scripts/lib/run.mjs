// Child processes: started, listened to, and never left behind.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { CommandFailed, UserError } from './errors.mjs';
import { ROOT } from './paths.mjs';
import { onStop } from './signals.mjs';

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();

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
 * @returns {Promise<string>} its standard output (empty when shown)
 * @throws {CommandFailed} when its exit code is not 0
 * @throws {UserError} when there is no such program
 */
export async function run(command, args, { cwd = ROOT, env = {}, show = false, onLine } = {}) {
  if (running.size === 0) onStop(endAll);
  const child = spawn(command, args, {
    cwd,
    env: environment(env),
    stdio: show ? 'inherit' : ['ignore', 'pipe', 'pipe'],
    windowsHide: true,
  });
  running.add(child);

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
  }).finally(() => running.delete(child));

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
export async function handOver(command, args, options = {}) {
  try {
    await run(command, args, { ...options, show: true });
    return 0;
  } catch (error) {
    if (error instanceof CommandFailed) return error.code ?? 1;
    throw error;
  }
}

/**
 * Asks a program something short.
 * @param {string} command
 * @param {string[]} args
 * @returns {string | undefined} its trimmed standard output; nothing when it is missing or fails
 */
export function ask(command, args) {
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

/** Ends every program that is still running, and waits until they are gone (5 s at most). */
async function endAll() {
  console.log('\nStopped. What was finished is kept.');
  const gone = [...running].map((child) => {
    child.kill('SIGTERM');
    return once(child, 'exit');
  });
  await Promise.race([Promise.all(gone), sleep(5000)]);
}
