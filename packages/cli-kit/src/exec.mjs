/** Runs a program (git, rg) with limits on time and output. */

import { spawn } from 'node:child_process';
import { describeDirectoryProblem } from './directory-problem.mjs';

/** Limit on standard output, in bytes. The answer to the hub must fit into one WebSocket message. */
export const MAX_OUTPUT_BYTES = 12 * 1024 * 1024;

/** Time limit, below the hub's limit of 30 s for an RPC. */
const TIMEOUT_MS = 25_000;

/**
 * @param {string} program
 * @param {string[]} args
 * @param {{cwd: string, env?: Record<string, string | undefined>, maxOutputBytes?: number, timeoutMs?: number,
 *   stdin?: number}} options `stdin`: a file descriptor; empty by default
 * @returns {Promise<{code: number | null, stdout: Buffer, stderr: string, isTruncated: boolean}>} `isTruncated`: whether the
 *   program was killed because its output exceeded the limit
 * @throws {Error} when the program cannot be started or exceeds the time limit
 */
export function run(program, args, { cwd, env = process.env, maxOutputBytes = MAX_OUTPUT_BYTES, timeoutMs = TIMEOUT_MS, stdin }) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, env, stdio: [stdin ?? 'ignore', 'pipe', 'pipe'] });
    const chunks = [];
    let size = 0;
    let stderr = '';
    let isTruncated = false;
    let hasTimedOut = false;
    const timer = setTimeout(() => {
      hasTimedOut = true;
      child.kill('SIGKILL');
    }, timeoutMs);
    child.stdout.on('data', (chunk) => {
      if (isTruncated) return;
      const remaining = maxOutputBytes - size;
      chunks.push(chunk.length > remaining ? chunk.subarray(0, remaining) : chunk);
      size += Math.min(chunk.length, remaining);
      if (chunk.length > remaining) {
        isTruncated = true;
        child.kill('SIGKILL');
      }
    });
    child.stderr.setEncoding('utf8');
    child.stderr.on('data', (text) => {
      if (stderr.length < 64 * 1024) stderr += text;
    });
    child.once('error', (/** @type {NodeJS.ErrnoException} */ error) => {
      clearTimeout(timer);
      const problem = describeDirectoryProblem(cwd);
      if (problem !== null) reject(new Error(problem));
      else reject(error.code === 'ENOENT' ? new Error(`${program} is not installed on this machine.`) : error);
    });
    child.once('close', (code) => {
      clearTimeout(timer);
      if (hasTimedOut) reject(new Error(`${program} exceeded its time limit of ${timeoutMs / 1000} s and was stopped.`));
      else resolve({ code, stdout: Buffer.concat(chunks), stderr: stderr.trim(), isTruncated });
    });
  });
}
