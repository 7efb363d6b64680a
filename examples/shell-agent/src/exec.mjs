/** Runs a helper program (git, rg) to its end, with a limit on time and on output. */

import { spawn } from 'node:child_process';

/** Most bytes of standard output that are kept: an answer to the hub must fit into one WebSocket message. */
export const MAX_OUTPUT = 12 * 1024 * 1024;

/** How long a program may run: below the hub's own limit of 30 s for a call. */
export const MAX_MS = 25_000;

/**
 * @param {string} program
 * @param {string[]} args
 * @param {{cwd: string, env?: Record<string, string | undefined>, maxOutput?: number, timeoutMs?: number}} options
 * @returns {Promise<{code: number | null, stdout: Buffer, stderr: string, truncated: boolean}>} `truncated`: the output
 *   went over the limit and the program was stopped there
 * @throws {Error} when the program cannot be started or runs too long
 */
export function run(program, args, { cwd, env = process.env, maxOutput = MAX_OUTPUT, timeoutMs = MAX_MS }) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const chunks = [];
    let size = 0;
    let stderr = '';
    let truncated = false;
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      child.kill('SIGKILL');
    }, timeoutMs);
    child.stdout.on('data', (chunk) => {
      if (truncated) return;
      const room = maxOutput - size;
      chunks.push(chunk.length > room ? chunk.subarray(0, room) : chunk);
      size += Math.min(chunk.length, room);
      if (chunk.length > room) {
        truncated = true;
        child.kill('SIGKILL');
      }
    });
    child.stderr.setEncoding('utf8');
    child.stderr.on('data', (text) => {
      if (stderr.length < 64 * 1024) stderr += text;
    });
    child.once('error', (error) => {
      clearTimeout(timer);
      reject(error.code === 'ENOENT' ? new Error(`${program} is not installed on this machine.`) : error);
    });
    child.once('close', (code) => {
      clearTimeout(timer);
      if (timedOut) reject(new Error(`${program} took longer than ${timeoutMs / 1000} s and was stopped.`));
      else resolve({ code, stdout: Buffer.concat(chunks), stderr: stderr.trim(), truncated });
    });
  });
}
