// A program with everything that it starts, as one process group. None of it outlives this process, however that ends.

import { spawn } from 'node:child_process';

/**
 * A shell script whose standard input ends when the process at the other end does, also when that one is killed. Then it
 * kills the process group of its argument, and ends when nothing of that is left, after 5 s at the latest.
 */
const GUARD = `
  read -r _
  kill -KILL "-$1" 2>/dev/null
  tries=0
  while [ $tries -lt 50 ] && kill -0 "-$1" 2>/dev/null; do sleep 0.1; tries=$((tries + 1)); done`;

/** @type {Set<() => void>} ends each group that this process started */
const kills = new Set();
// One listener: Node takes more than ten for a leak.
process.once('exit', () => kills.forEach((kill) => kill()));

/**
 * @typedef {object} Group
 * @property {import('node:child_process').ChildProcess} child the program itself
 * @property {Promise<void>} exited settled when the program has ended; what it has started may still run
 * @property {number[]} pids of the program and of the guard: when both have exited, so has the whole group
 * @property {() => void} kill ends all of it at once
 * @property {() => void} release stops watching the group; processes that are left in it continue
 */

/**
 * Starts a program as a group of its own, which a terminal's Ctrl-C does not reach. On Windows, which has no process
 * groups, the group is the program alone.
 * @param {string} command
 * @param {string[]} args
 * @param {import('node:child_process').SpawnOptions} options as of `spawn`
 * @returns {Group}
 */
export function startGroup(command, args, options) {
  const grouped = process.platform !== 'win32';
  const child = spawn(command, args, { ...options, detached: grouped });
  const pids = child.pid === undefined ? [] : [child.pid];
  let guard;
  // There is no process id when the program could not be started, of which `child` emits an error.
  if (grouped && child.pid !== undefined) {
    // The guard has its own session, so that closing the terminal does not end it before the group.
    guard = spawn('/bin/sh', ['-c', GUARD, 'guard', String(child.pid)], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    guard.unref();
    pids.push(guard.pid);
  }
  const kill = () => {
    try {
      if (grouped) process.kill(-child.pid, 'SIGKILL');
      else child.kill('SIGKILL');
    } catch {
      // It is gone already.
    }
  };
  const release = () => {
    kills.delete(kill);
    guard?.kill('SIGKILL');
  };
  kills.add(kill);
  const exited = new Promise((resolve) => {
    child.once('exit', () => resolve());
  });
  return { child, exited, pids, kill, release };
}
