/** Process information of the operating system: children, resident memory and CPU time. */

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';

const HAS_PROC = existsSync('/proc/self/stat');

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

/** CPU time used so far, user and system, in seconds. */
export function cpuSeconds(pid) {
  if (HAS_PROC) {
    const fields = readStat(pid);
    // utime and stime, fields 14 and 15 of the line, in ticks of 10 ms.
    return (Number(fields[11]) + Number(fields[12])) / 100;
  }
  const row = ps('pid', 'time').find(([id]) => Number(id) === pid);
  return row[1].split(/[:-]/).reduce((seconds, part) => seconds * 60 + Number(part), 0);
}
