/** Runs one shell command, and delivers its output in pieces. A slow receiver slows down the command (backpressure). */

import { spawn } from 'node:child_process';
import { StringDecoder } from 'node:string_decoder';
import { signalGroup } from 'session-gateway-cli-kit/system-processes';

/** Output is delivered when the buffer has this many characters, or after this time. */
const FLUSH_CHARS = 32 * 1024;
const FLUSH_DELAY_MS = 100;

/** Limit on a command's output. Further output is discarded. */
const MAX_OUTPUT_CHARS = 16 * 1024 * 1024;

/** Limit on how long background processes may keep the output open after the shell has exited. */
const DRAIN_TIMEOUT_MS = 1000;

/** Time between SIGTERM and SIGKILL. */
const KILL_DELAY_MS = 2000;

/**
 * Runs the command `$2` with the remaining arguments. On exit, writes the directory and the exported variables to the file `$1`. The script
 * has only one line, so that the line numbers in error messages are line numbers of the command.
 */
const WRAPPER =
  `trap '{ printf "%s\\0" "$(pwd -P)"; command -p env -0 && printf "end\\0"; } >| "$__file"' EXIT; ` +
  '__file=$1 __command=$2; shift 2; eval "$__command"';

/** Runs `sh -c` with the arguments, and standard error in the pipe of standard output: from two pipes, the order of the lines is unknown. */
const WITH_MERGED_OUTPUT = 'exec sh -c "$@" 2>&1';

/**
 * Starts `sh -c command`. Standard output and standard error are merged.
 * @param {{command: string, args?: string[], cwd: string, env?: Record<string, string | undefined>,
 *   stateFile?: string, onOutput: (piece: string) => Promise<unknown>, flushDelayMs?: number, maxOutputChars?: number}} options
 *   - `args`: become `$1`, `$2`, ...
 *   - `stateFile`: the file to which the shell writes its directory, its variables and `end` when it exits, each followed by NUL
 *   - `onOutput`: receives a piece of the output. No output is read while the promise is pending
 * @returns {{done: Promise<{code: number | null, signal: string | null, lastPiece: string}>, kill: () => void}} `lastPiece`: the last piece
 *   of the output, which is not passed to `onOutput`. `done` rejects when the shell cannot be started
 */
export function startCommand({
  command,
  args = [],
  cwd,
  env = process.env,
  stateFile,
  onOutput,
  flushDelayMs = FLUSH_DELAY_MS,
  maxOutputChars = MAX_OUTPUT_CHARS,
}) {
  const script = stateFile === undefined ? [command, 'sh'] : [WRAPPER, 'sh', stateFile, command];
  const child = spawn('sh', ['-c', WITH_MERGED_OUTPUT, 'sh', ...script, ...args], {
    cwd,
    env,
    // A new process group, so that `kill` also reaches the processes that the shell started.
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let buffer = '';
  let total = 0;
  let pendingFlush = null;
  let failure = null;
  let timer = null;
  let killTimer = null;

  const flush = (all) => {
    clearTimeout(timer);
    timer = null;
    pendingFlush ??= (async () => {
      child.stdout.pause();
      try {
        do {
          const [piece, remaining] = splitPiece(buffer);
          buffer = remaining;
          await onOutput(piece);
        } while (buffer.length >= FLUSH_CHARS || (all && buffer !== ''));
      } catch (error) {
        failure = error;
        signalGroup(child.pid, 'SIGKILL');
      }
      pendingFlush = null;
      child.stdout.resume();
      scheduleFlush();
    })();
    return pendingFlush;
  };

  const scheduleFlush = () => {
    if (buffer.length >= FLUSH_CHARS) flush(false);
    else if (buffer !== '' && timer === null && pendingFlush === null) timer = setTimeout(() => flush(true), flushDelayMs);
  };

  const append = (text) => {
    if (text === '' || failure || total > maxOutputChars) return;
    total += text.length;
    buffer += total > maxOutputChars ? `${text}\n[output limit reached; the rest is discarded]\n` : text;
    scheduleFlush();
  };

  const decoder = new StringDecoder('utf8');
  child.stdout.on('data', (bytes) => append(decoder.write(bytes)));
  child.stdout.on('end', () => append(decoder.end()));

  const done = new Promise((resolve, reject) => {
    let graceTimer = null;
    child.once('error', reject);
    child.once('exit', () => {
      const endBackgroundProcesses = () => {
        // While a flush is pending, the receiver keeps the output open, not a background process.
        if (pendingFlush) graceTimer = setTimeout(endBackgroundProcesses, DRAIN_TIMEOUT_MS);
        else signalGroup(child.pid, 'SIGTERM');
      };
      graceTimer = setTimeout(endBackgroundProcesses, DRAIN_TIMEOUT_MS);
    });
    child.once('close', async (code, signal) => {
      clearTimeout(graceTimer);
      clearTimeout(killTimer);
      while (pendingFlush || (buffer.length > FLUSH_CHARS && !failure)) await (pendingFlush ?? flush(false));
      clearTimeout(timer);
      if (failure) reject(failure);
      else resolve({ code, signal, lastPiece: buffer });
    });
  });

  return {
    done,
    kill() {
      signalGroup(child.pid, 'SIGTERM');
      killTimer ??= setTimeout(() => signalGroup(child.pid, 'SIGKILL'), KILL_DELAY_MS);
    },
  };
}

/** Splits a text into the next piece and the rest. Does not split a surrogate pair. */
function splitPiece(text) {
  if (text.length <= FLUSH_CHARS) return [text, ''];
  const last = text.charCodeAt(FLUSH_CHARS - 1);
  const end = last >= 0xd800 && last <= 0xdbff ? FLUSH_CHARS - 1 : FLUSH_CHARS;
  return [text.slice(0, end), text.slice(end)];
}
