/** What the operating system knows of a process: its children, its resident memory, the processor time it used. */

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';

const HAS_PROC = existsSync('/proc/self/stat');

/** Fields of /proc/<pid>/stat from the third on; the second (the name) may hold spaces and ends at the last `)`. */
function stat(pid) {
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
        return Number(stat(pid)[1]) === parent;
      } catch {
        return false; // gone since the folder was read
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

/** Processor seconds used so far, user and system together. */
export function processorSeconds(pid) {
  if (HAS_PROC) {
    const fields = stat(pid);
    // utime and stime are fields 14 and 15 of the whole line, in ticks: 100 a second on every Linux that Node runs on.
    return (Number(fields[11]) + Number(fields[12])) / 100;
  }
  const row = ps('pid', 'time').find(([id]) => Number(id) === pid);
  return row[1].split(/[:-]/).reduce((seconds, part) => seconds * 60 + Number(part), 0);
}
