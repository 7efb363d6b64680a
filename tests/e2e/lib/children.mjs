/** Programs that a test starts. None outlives it, however it ends. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { createInterface } from 'node:readline';
import { Recorder, within } from './await.mjs';

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();

process.once('exit', () => running.forEach((child) => child.kill('SIGINT')));
// Without a listener, a signal would end this process past its `exit` event.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

/** A port of this machine that nobody listens on, for a program that must be told one. */
export async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/**
 * Starts a program; it is ended with the test at the latest.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {string} name for messages
 * @param {string} command
 * @param {string[]} args
 * @param {{cwd?: string, env?: Record<string, string>}} [options] `env` is added to the environment
 */
export function start(t, name, command, args, { cwd, env = {} } = {}) {
  const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  running.add(child);
  const exited = once(child, 'exit');
  const lines = new Recorder(`the lines of ${name}`);
  for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on('line', (line) => lines.push(line));
  exited.then(([code, signal]) => {
    running.delete(child);
    lines.end(`it ended with ${signal ?? code}`);
  });
  const end = (signal) => {
    child.kill(signal);
    return within(exited, `${name} to end`);
  };
  t.after(() => end('SIGINT').catch(() => end('SIGKILL')));
  return {
    lines,
    /** Settled with exit code and signal when the program has ended. */
    exited,
    /** Asks the program to end, as a service manager does; answers exit code and signal. */
    end: () => end('SIGTERM'),
    /** Ends the program in the middle of whatever it does. */
    kill: () => end('SIGKILL'),
  };
}
