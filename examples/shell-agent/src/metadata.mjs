/** The metadata of a session, as far as the process that serves it knows them. */

import { homedir, hostname, platform } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { Catalog } from './catalog.mjs';
import { describeWorktree } from './worktree.mjs';

export const VERSION = '0.1.0';

/**
 * @param {{root: string, flavor: string, name?: string, machineId: string, startedByRunner?: boolean}} options
 * @param {string} agentId the agent's own id of the session
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
 * The metadata at the hub, which may be those of an earlier run, brought up to this one.
 * @param {any} current
 * @param {Record<string, unknown>} own as `describeSession` gives them
 */
export function revived(current, own) {
  const { archivedBy: _by, archiveReason: _why, ...kept } = current ?? {};
  const next = { ...kept, ...own };
  if (kept.lifecycleState === 'running') next.lifecycleStateSince = kept.lifecycleStateSince;
  return isDeepStrictEqual(next, current) ? current : next;
}
