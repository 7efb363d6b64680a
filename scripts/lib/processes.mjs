// Processes of this computer by their id: whether they run, when they started, and their parent.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/**
 * @typedef {object} ProcessInfo fields are missing where the system does not provide them
 * @property {boolean} [isZombie] whether it has ended and its parent has not reaped it
 * @property {string} [startTime] in the system's format
 * @property {number} [parent]
 * @property {string} [name] of its program
 */

/**
 * Whether a process runs. A process that has ended and was not reaped does not run: in a container without an init process,
 * nothing reaps the processes whose parent was killed.
 * @param {number} pid
 * @param {string} [startTime] process ids are reused: with another start time, it is another process
 */
export function isRunning(pid, startTime = '') {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (error.code !== 'EPERM') return false;
  }
  const info = inspectProcess(pid);
  return !info.isZombie && (!startTime || !info.startTime || startTime === info.startTime);
}

/**
 * Reads /proc on Linux and runs `ps` on other systems.
 * @param {number} pid
 * @returns {ProcessInfo}
 */
export function inspectProcess(pid) {
  if (process.platform === 'win32') return {};
  if (process.platform !== 'linux') {
    const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC' };
    const { stdout } = spawnSync('ps', ['-o', 'stat=,ppid=,lstart=,comm=', '-p', String(pid)], { env, encoding: 'utf8' });
    const [, state, parent, startTime, name] = stdout?.trim().match(/^(\S+)\s+(\d+)\s+(.{24})\s+(.*)$/) ?? [];
    return state === undefined ? {} : { isZombie: state.startsWith('Z'), startTime, parent: Number(parent), name };
  }
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const nameEnd = stat.lastIndexOf(')');
    // Fields 3, 4, 20 and 22 of proc(5).
    const fields = stat.slice(nameEnd + 2).split(' ');
    // While other threads run, the process does: only its first thread has ended.
    const isZombie = 'ZX'.includes(fields[0]) && Number(fields[17]) <= 1;
    return { isZombie, startTime: fields[19], parent: Number(fields[1]), name: stat.slice(stat.indexOf('(') + 1, nameEnd) };
  } catch {
    return {};
  }
}
