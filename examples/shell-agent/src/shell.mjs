/** Runs one shell command and hands its output on in pieces, as fast as the receiver takes them. */

import { spawn } from 'node:child_process';
import { StringDecoder } from 'node:string_decoder';

/** A piece is handed on when it is this long or this old. */
const FLUSH_CHARS = 32 * 1024;
const FLUSH_MS = 100;

/** What a command may write before the rest is thrown away. */
export const MAX_COMMAND_OUTPUT = 16 * 1024 * 1024;

/** How long processes that the shell left in the background may keep its output open. */
const GRACE_MS = 1000;

/** How long a process has between being asked to end and being ended. */
const KILL_MS = 2000;

/**
 * Runs `$2` with what follows as its arguments, and leaves in the file `$1` where it ended and what was exported then. All
 * on one line, so that line numbers in messages are the command's own.
 */
const KEEPING =
  `trap '{ printf "%s\\0" "$(pwd -P)"; command -p env -0 && printf "end\\0"; } >| "$__file"' EXIT; ` +
  '__file=$1 __command=$2; shift 2; eval "$__command"';

/**
 * Starts `sh -c command`. Standard output and standard error are one text, in the order they come in.
 * @param {{command: string, args?: string[], cwd: string, env?: Record<string, string | undefined>,
 *   stateFile?: string, onOutput: (piece: string) => Promise<unknown>, flushMs?: number, maxOutput?: number}} options
 *   `args` become `$1`, `$2`, ...; `stateFile`: where the shell leaves its directory, its variables and the word `end` when
 *   it ends, with a NUL after each; until the promise of `onOutput` is settled the command's output is not read
 * @returns {{done: Promise<{code: number | null, signal: string | null, rest: string}>, kill: () => void}} `rest`: the
 *   last piece, which was not handed on; `done` fails when the shell cannot be started
 */
export function startCommand({
  command,
  args = [],
  cwd,
  env = process.env,
  stateFile,
  onOutput,
  flushMs = FLUSH_MS,
  maxOutput = MAX_COMMAND_OUTPUT,
}) {
  // A process group of its own, so that `kill` reaches what the shell started.
  const words = stateFile === undefined ? [command, 'sh'] : [KEEPING, 'sh', stateFile, command];
  const child = spawn('sh', ['-c', ...words, ...args], {
    cwd,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const streams = [child.stdout, child.stderr];
  let buffer = '';
  let total = 0;
  let flushing = null;
  let failure = null;
  let timer = null;
  let killTimer = null;

  const signalGroup = (signal) => {
    try {
      process.kill(-child.pid, signal);
    } catch {
      // The group is gone.
    }
  };

  const flush = (all) => {
    clearTimeout(timer);
    timer = null;
    flushing ??= (async () => {
      for (const stream of streams) stream.pause();
      try {
        do {
          const [piece, rest] = cut(buffer);
          buffer = rest;
          await onOutput(piece);
        } while (buffer.length >= FLUSH_CHARS || (all && buffer !== ''));
      } catch (error) {
        failure = error;
        signalGroup('SIGKILL');
      }
      flushing = null;
      for (const stream of streams) stream.resume();
      arm();
    })();
    return flushing;
  };

  const arm = () => {
    if (buffer.length >= FLUSH_CHARS) flush(false);
    else if (buffer !== '' && timer === null && flushing === null) timer = setTimeout(() => flush(true), flushMs);
  };

  const add = (text) => {
    if (text === '' || failure || total > maxOutput) return;
    total += text.length;
    buffer += total > maxOutput ? `${text}\n[the rest of the output is left out]\n` : text;
    arm();
  };

  for (const stream of streams) {
    const decoder = new StringDecoder('utf8');
    stream.on('data', (bytes) => add(decoder.write(bytes)));
    stream.on('end', () => add(decoder.end()));
  }

  const done = new Promise((resolve, reject) => {
    let grace = null;
    child.once('error', reject);
    child.once('exit', () => {
      const check = () => {
        // Output that still waits to be taken is no sign of a process left behind.
        if (flushing) grace = setTimeout(check, GRACE_MS);
        else signalGroup('SIGTERM');
      };
      grace = setTimeout(check, GRACE_MS);
    });
    child.once('close', async (code, signal) => {
      clearTimeout(grace);
      clearTimeout(killTimer);
      while (flushing) await flushing;
      clearTimeout(timer);
      timer = null;
      try {
        while (buffer.length > FLUSH_CHARS && !failure) {
          const [piece, rest] = cut(buffer);
          buffer = rest;
          await onOutput(piece);
        }
        if (failure) throw failure;
        resolve({ code, signal, rest: buffer });
      } catch (error) {
        reject(error);
      }
    });
  });

  return {
    done,
    kill() {
      signalGroup('SIGTERM');
      killTimer ??= setTimeout(() => signalGroup('SIGKILL'), KILL_MS);
    },
  };
}

/** Takes the next piece off a text, never between the two halves of a character. */
function cut(text) {
  if (text.length <= FLUSH_CHARS) return [text, ''];
  const last = text.charCodeAt(FLUSH_CHARS - 1);
  const end = last >= 0xd800 && last <= 0xdbff ? FLUSH_CHARS - 1 : FLUSH_CHARS;
  return [text.slice(0, end), text.slice(end)];
}
