/** Process information of the operating system: children, resident memory and CPU time. */

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';

const HAS_PROC = existsSync('/proc/self/stat');
const HAS_SCHEDSTAT = existsSync('/proc/self/schedstat');

/** The fields of /proc/<pid>/stat from the third on. The second one, the name, may contain spaces and ends at the last `)`. */
function readStat(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}

function ps(...columns) {
  return execFileSync('ps', ['-A', '-o', columns.map((column) => `${column}=`).join(',')], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields.length >= columns.length);
}

/** Process ids of the direct children of `parent`. */
export function childrenOf(parent) {
  if (!HAS_PROC) {
    return ps('pid', 'ppid')
      .filter(([, ppid]) => Number(ppid) === parent)
      .map(([pid]) => Number(pid));
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return Number(readStat(pid)[1]) === parent;
      } catch {
        return false; // The process has exited since the folder was read.
      }
    });
}

/** Resident memory in MB (10^6 bytes). */
export function residentMegabytes(pid) {
  if (HAS_PROC) {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1.024e-3;
  }
  const row = ps('pid', 'rss').find(([id]) => Number(id) === pid);
  return Number(row[1]) * 1.024e-3;
}

/** The CPU time of the threads of a process in nanoseconds. Null if a thread has exited while they were read. */
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
 * CPU time used so far, user and system, in seconds. On Linux it is exact, but without the threads that have exited: for a
 * process with a constant number of threads, such as workerd. Elsewhere its resolution is 10 ms or more.
 */
export function cpuSeconds(pid) {
  if (HAS_SCHEDSTAT) {
    for (let attempt = 0; attempt < 10; attempt += 1) {
      const nanoseconds = readThreads(pid);
      if (nanoseconds !== null) return nanoseconds / 1e9;
    }
  }
  if (HAS_PROC) {
    const fields = readStat(pid);
    // utime and stime, fields 14 and 15 of the line, in ticks of 10 ms.
    return (Number(fields[11]) + Number(fields[12])) / 100;
  }
  const row = ps('pid', 'time').find(([id]) => Number(id) === pid);
  return row[1].split(/[:-]/).reduce((seconds, part) => seconds * 60 + Number(part), 0);
}
