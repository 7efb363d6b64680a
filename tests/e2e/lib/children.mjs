/** Starts programs for tests. The programs end when this process ends. */

import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import { createInterface } from 'node:readline';
import { Recorder, withTimeout } from '../../../scripts/lib/await.mjs';

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();

process.once('exit', () => running.forEach((child) => child.kill('SIGINT')));
// Without a listener, a signal ends this process without its `exit` event.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

/**
 * Finds a free port, for a program that needs a port number. Systems give connections ports from 32768 on: such a port could be in
 * use when the program starts.
 */
export async function freePort() {
  const port = randomInt(20_000, 30_000);
  const server = net.createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (error) {
    if (error.code === 'EADDRINUSE') return freePort();
    throw error;
  }
  server.close();
  await once(server, 'close');
  return port;
}

/**
 * Starts a program, which is ended after the test.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {string} name for error messages
 * @param {string} command
 * @param {string[]} args
 * @param {{cwd?: string, env?: Record<string, string>, stdin?: 'ignore' | 'pipe'}} [options] `env` is added to the
 *   environment; `stdin: 'pipe'` is for `writeLine`
 */
export function start(t, name, command, args, { cwd, env = {}, stdin = 'ignore' } = {}) {
  const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: [stdin, 'pipe', 'pipe'] });
  running.add(child);
  const exited = once(child, 'exit');
  const lines = new Recorder(`the lines of ${name}`);
  for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on('line', (line) => lines.push(line));
  exited.then(([code, signal]) => {
    running.delete(child);
    lines.end(`it exited with ${signal ?? code}`);
  });
  const end = (signal) => {
    child.kill(signal);
    return withTimeout(exited, `${name} to exit`);
  };
  t.after(() => end('SIGINT').catch(() => end('SIGKILL')));
  return {
    lines,
    /** Writes a line to the program's standard input. @param {string} line */
    writeLine: (line) => child.stdin.write(`${line}\n`),
    /** Resolves to the exit code and the signal. */
    exited,
    /** Sends SIGINT, like Ctrl-C. */
    interrupt: () => child.kill('SIGINT'),
    /** Sends SIGTERM, and waits for the exit code and the signal. */
    end: () => end('SIGTERM'),
    /** Sends SIGKILL, and waits for the exit code and the signal. */
    kill: () => end('SIGKILL'),
  };
}
