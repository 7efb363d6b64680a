/** The session metadata that the process serving the session publishes. */

import { homedir, hostname, platform } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { Catalog } from './catalog.mjs';
import { describeWorktree } from './worktree.mjs';

export const VERSION = '0.1.0';

/**
 * @param {{root: string, flavor: string, name?: string, machineId: string, startedByRunner?: boolean}} options
 * @param {string} agentId the agent's id of the session
 */
export async function describeSession({ root, flavor, name, machineId, startedByRunner = false }, agentId) {
  const worktree = await describeWorktree(root);
  return {
    path: root,
    host: hostname(),
    version: VERSION,
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
    tools: ['Bash', 'TodoWrite'],
    slashCommands: await new Catalog(root).commands(),
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
