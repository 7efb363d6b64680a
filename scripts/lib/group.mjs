// Runs a program as a process group. The group ends when this process ends, even if this process is killed.

import { spawn } from 'node:child_process';
import { signalGroup } from '../../packages/cli-kit/src/system-processes.mjs';

/**
 * A shell script, the guard: kills the process group $1 when standard input is closed. Standard input is a pipe from this process, so it is
 * closed when this process ends. The guard exits when the group has ended, after 5 s at the latest.
 */
const GUARD = `
  read -r _
  kill -KILL "-$1" 2>/dev/null
  tries=0
  while [ $tries -lt 50 ] && kill -0 "-$1" 2>/dev/null; do sleep 0.1; tries=$((tries + 1)); done`;

/** @type {Set<() => void>} one function per group */
const kills = new Set();
// One listener for all groups, because Node warns of a leak when there are more than ten listeners.
process.once('exit', () => kills.forEach((kill) => kill()));

/**
 * @typedef {object} Group
 * @property {import('node:child_process').ChildProcess} child the program
 * @property {Promise<void>} exited resolves when the program has exited; child processes of the program may still run
 * @property {number[]} pids of the program and of the guard: when both have exited, the whole group has exited
 * @property {() => void} kill sends SIGKILL to the group
 * @property {() => void} release stops the guard; remaining processes of the group continue
 */

/**
 * Starts a program in a new process group, which does not receive the terminal's Ctrl-C. On Windows, which has no process groups, the
 * group is only the program.
 * @param {string} command
 * @param {string[]} args
 * @param {import('node:child_process').SpawnOptions} options of `spawn`
 * @returns {Group}
 */
export function startGroup(command, args, options) {
  const hasProcessGroups = process.platform !== 'win32';
  const child = spawn(command, args, { ...options, detached: hasProcessGroups });
  const pids = child.pid === undefined ? [] : [child.pid];
  let guard;
  // Without a process id, the program could not be started, and `child` emits an error.
  if (hasProcessGroups && child.pid !== undefined) {
    // Detached, so that closing the terminal does not end the guard before the group.
    guard = spawn('/bin/sh', ['-c', GUARD, 'guard', String(child.pid)], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    guard.unref();
    pids.push(guard.pid);
  }
  const kill = () => {
    if (hasProcessGroups) signalGroup(child.pid, 'SIGKILL');
    else child.kill('SIGKILL');
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
