/** The TCP ports on which the processes of a directory listen, on Linux. */

import { readFileSync, readdirSync, readlinkSync } from 'node:fs';

/** The state LISTEN in /proc/net/tcp (proc_net_tcp(5)). */
const LISTEN = '0A';

/** Returns the target of a link, or null if the link has disappeared or belongs to another user. @param {string} link */
function readLink(link) {
  try {
    return readlinkSync(link);
  } catch {
    return null;
  }
}

/** Returns the names in a folder, or none if the folder has disappeared. @param {string} folder */
function readFolder(folder) {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Returns the listening ports of all processes whose working directory is `directory`. @param {string} directory */
export function listeningPorts(directory) {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && readLink(`/proc/${name}/cwd`) === directory);
  const sockets = new Set(processes.flatMap((pid) => readFolder(`/proc/${pid}/fd`).map((fd) => readLink(`/proc/${pid}/fd/${fd}`))));
  const rows = ['tcp', 'tcp6'].flatMap((table) => readFileSync(`/proc/net/${table}`, 'utf8').trim().split('\n').slice(1));
  return rows
    .map((row) => row.trim().split(/\s+/))
    .filter(([, , , state, , , , , , inode]) => state === LISTEN && sockets.has(`socket:[${inode}]`))
    .map(([, local]) => Number.parseInt(local.split(':')[1], 16));
}
