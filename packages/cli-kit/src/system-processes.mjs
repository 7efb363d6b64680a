/** Processes of this computer by process id: whether a process runs, its start time, parent, children and group. */

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';

const HAS_PROC = existsSync('/proc/self/stat');

/**
 * @typedef {object} ProcessInfo a field is missing if the system does not provide its value
 * @property {boolean} [isZombie] whether the process has ended and its parent has not reaped it
 * @property {string} [startTime] in the system's format
 * @property {number} [parent]
 * @property {string} [name] of the program
 */

/**
 * Whether a process runs. A zombie does not run: in a container without an init process, nothing reaps a process whose parent was
 * killed.
 * @param {number} pid
 * @param {string} [startTime] the start time of the expected process. Ids are reused, so another start time means another process
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
    const { name, fields } = readStat(pid);
    // The system shows a process whose first thread has ended as a zombie, although other threads may still run.
    const isZombie = 'ZX'.includes(fields[3]) && Number(fields[20]) <= 1;
    return { isZombie, startTime: fields[22], parent: Number(fields[4]), name };
  } catch {
    return {};
  }
}

/**
 * Reads /proc/PID/stat of Linux.
 * @param {number} pid
 * @returns {{name: string, fields: string[]}} `fields`: by their numbers in proc(5); fields 0 to 2 are empty
 */
export function readStat(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name may contain spaces and parentheses.
  const nameEnd = stat.lastIndexOf(')');
  const name = stat.slice(stat.indexOf('(') + 1, nameEnd);
  return { name, fields: ['', '', '', ...stat.slice(nameEnd + 2).split(' ')] };
}

/**
 * Returns the process ids of the direct children.
 * @param {number} parent
 * @returns {number[]}
 */
export function childrenOf(parent) {
  if (HAS_PROC) {
    const pids = readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
    return pids.filter((pid) => inspectProcess(pid).parent === parent);
  }
  return listProcesses('pid', 'ppid')
    .filter(([, ppid]) => Number(ppid) === parent)
    .map(([pid]) => Number(pid));
}

/**
 * Ends the processes that were started with a variable of this value, such as the descendants of a process that was killed: they have no
 * common parent or group any more. Only on Linux; other systems do not show the variables of a process.
 * @param {string} name
 * @param {string} value
 */
export function killWithVariable(name, value) {
  const pids = HAS_PROC ? readdirSync('/proc').filter((entry) => /^\d+$/.test(entry) && Number(entry) !== process.pid) : [];
  for (const pid of pids) {
    try {
      if (readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`${name}=${value}`)) process.kill(Number(pid), 'SIGKILL');
    } catch {
      // The process has ended, or belongs to another user.
    }
  }
}

/**
 * Lists all processes with `ps`.
 * @param {...string} columns keywords of the option `-o` of `ps`
 * @returns {string[][]} the values of the columns
 */
export function listProcesses(...columns) {
  return execFileSync('ps', ['-A', '-o', columns.map((column) => `${column}=`).join(',')], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter((values) => values.length >= columns.length);
}

/**
 * Sends a signal to a process group. Has no effect if the group has ended, or could not be started.
 * @param {number | undefined} leader the process id of the group's leader
 * @param {NodeJS.Signals} signal
 */
export function signalGroup(leader, signal) {
  try {
    process.kill(-leader, signal);
  } catch {
    // ESRCH; on macOS EPERM for a group of zombies; for a program that could not be started, an invalid argument.
  }
}
