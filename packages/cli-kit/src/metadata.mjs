/** The metadata that a CLI publishes for its session. */

import { homedir, hostname, platform } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { UPLOADS_PATH } from './files.mjs';
import { describeWorktree } from './worktree.mjs';

/**
 * @param {import('./app.mjs').ServingOptions} options
 * @param {string} agentSessionId the agent's id of the session, which is not the hub's id
 */
export async function describeSession(options, agentSessionId) {
  const { root, flavor, name, machineId, store, startedByRunner = false, program } = options;
  const worktree = await describeWorktree(root);
  return {
    path: root,
    host: hostname(),
    version: program.version,
    os: platform(),
    homeDir: homedir(),
    uploadsPath: UPLOADS_PATH,
    machineId,
    installationId: store.installationId,
    flavor,
    [`${flavor}SessionId`]: agentSessionId,
    hostPid: process.pid,
    startedBy: startedByRunner ? 'runner' : 'terminal',
    startedFromRunner: startedByRunner,
    lifecycleState: 'initializing',
    lifecycleStateSince: Date.now(),
    ...(await program.describe?.(options)),
    ...(name === undefined ? {} : { name }),
    ...(worktree === undefined ? {} : { worktree }),
  };
}

/**
 * Merges this process's metadata into the stored metadata, which may be from an earlier process. Removes the fields of an archived
 * session, and fields that are `undefined` in `own`.
 * @param {any} current the stored metadata
 * @param {Record<string, unknown>} own from `describeSession`
 */
export function mergeMetadata(current, own) {
  const { archivedBy: _archivedBy, archiveReason: _archiveReason, ...others } = current ?? {};
  const next = withoutUndefined({ ...others, ...own });
  if (others.lifecycleState === next.lifecycleState) next.lifecycleStateSince = others.lifecycleStateSince;
  return isDeepStrictEqual(next, current) ? current : next;
}

const withoutUndefined = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
