/** The session metadata that the process serving the session publishes. */

import { homedir, hostname, platform } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { describeWorktree } from './worktree.mjs';

/**
 * @param {{root: string, flavor: string, name?: string, machineId: string, startedByRunner?: boolean,
 *   program: import('./program.mjs').Program}} options
 * @param {string} agentId the agent's id of the session
 */
export async function describeSession(options, agentId) {
  const { root, flavor, name, machineId, startedByRunner = false, program } = options;
  const worktree = await describeWorktree(root);
  return {
    path: root,
    host: hostname(),
    version: program.version,
    os: platform(),
    homeDir: homedir(),
    machineId,
    flavor,
    [`${flavor}SessionId`]: agentId,
    hostPid: process.pid,
    startedBy: startedByRunner ? 'runner' : 'terminal',
    startedFromRunner: startedByRunner,
    lifecycleState: 'running',
    lifecycleStateSince: Date.now(),
    ...(await program.describe?.(options)),
    ...(name === undefined ? {} : { name }),
    ...(worktree === undefined ? {} : { worktree }),
  };
}

/**
 * Merges this process's metadata into the hub's, which may be those of an earlier process or of an archived session.
 * @param {any} current
 * @param {Record<string, unknown>} own from `describeSession`
 */
export function mergeMetadata(current, own) {
  const { archivedBy: _archivedBy, archiveReason: _archiveReason, ...others } = current ?? {};
  const next = { ...others, ...own };
  if (others.lifecycleState === 'running') next.lifecycleStateSince = others.lifecycleStateSince;
  return isDeepStrictEqual(next, current) ? current : next;
}
