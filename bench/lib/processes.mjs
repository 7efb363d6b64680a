/** The resident memory and the CPU time of processes. */

import { existsSync, readFileSync, readdirSync } from 'node:fs';

import { listProcesses, readStat } from '../../packages/cli-kit/src/system-processes.mjs';

const HAS_PROC = existsSync('/proc/self/stat');
const HAS_SCHEDSTAT = existsSync('/proc/self/schedstat');

/** Returns the resident memory in MB (10^6 bytes). */
export function residentMegabytes(pid) {
  if (HAS_PROC) {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1.024e-3;
  }
  const row = listProcesses('pid', 'rss').find(([id]) => Number(id) === pid);
  return Number(row[1]) * 1.024e-3;
}

/** Returns the CPU time of the threads of a process in nanoseconds; null if a thread exited during the read. */
function readThreads(pid) {
  try {
    return readdirSync(`/proc/${pid}/task`)
      .map((thread) => Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]))
      .reduce((sum, time) => sum + time, 0);
  } catch (error) {
    if (error.code !== 'ENOENT' && error.code !== 'ESRCH') throw error;
    return null;
  }
}

/**
 * Returns the user and system CPU time of a process in seconds. On Linux, the time is exact, but excludes threads that have exited. So the
 * process must have a constant number of threads, as workerd has. On other systems, the resolution is 10 ms or more.
 */
export function cpuSeconds(pid) {
  if (HAS_SCHEDSTAT) {
    for (let attempt = 0; attempt < 10; attempt += 1) {
      const nanoseconds = readThreads(pid);
      if (nanoseconds !== null) return nanoseconds / 1e9;
    }
  }
  if (HAS_PROC) {
    const { fields } = readStat(pid);
    // utime and stime, in ticks of 10 ms.
    return (Number(fields[14]) + Number(fields[15])) / 100;
  }
  const row = listProcesses('pid', 'time').find(([id]) => Number(id) === pid);
  return row[1].split(/[:-]/).reduce((seconds, part) => seconds * 60 + Number(part), 0);
}
