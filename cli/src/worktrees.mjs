/** The command `worktrees`: lists the worktrees of sessions, and removes those whose session was deleted, if the user agrees. */

import { createInterface } from 'node:readline/promises';
import { resolveDirectory } from 'session-gateway-cli-kit/app';
import { HubClient } from 'session-gateway-cli-kit/hub-client';
import { makeLog } from 'session-gateway-cli-kit/log';
import { isInside } from 'session-gateway-cli-kit/paths';
import { signIn } from 'session-gateway-cli-kit/sign-in';
import { listWorktrees, removeWorktree } from 'session-gateway-cli-kit/worktree';
import { askYesNo } from './ask-yes-no.mjs';

/** The hub shortens the path of a listed session to 512 bytes, so the session of a worktree with a longer path cannot be recognized. */
const MAX_PATH_BYTES = 400;

/**
 * Asks for each worktree without a session. Without a terminal, only lists the worktrees.
 * @param {import('./program.mjs').AgentOptions} options
 * @param {{program: import('session-gateway-cli-kit/program').Program, env: Record<string, string | undefined>,
 *   input: NodeJS.ReadableStream & {isTTY?: boolean}, output: NodeJS.WritableStream}} context
 */
export async function tidyWorktrees(options, { program, env, input, output }) {
  const root = await resolveDirectory(options.dir, '--dir');
  const worktrees = await listWorktrees(root);
  if (worktrees.length === 0) {
    output.write(`The repository of ${root} has no worktrees of sessions.\n`);
    return;
  }
  const log = makeLog(options);
  const { token } = await signIn(options, { env, devVars: program.devVars, log, input, output });
  const sessions = await new HubClient({ hub: options.hub, token }).listSessions();
  const terminal = input.isTTY ? createInterface({ input, output }) : null;
  for (const { path, branch } of worktrees) {
    const isTooLong = Buffer.byteLength(JSON.stringify(path)) > MAX_PATH_BYTES;
    const hasSession = sessions.some(({ metadata }) => isInside(path, metadata?.path || '/'));
    const finding = hasSession
      ? 'has a session'
      : isTooLong
        ? 'is not removed: its path is too long to look for a session'
        : 'has no session';
    const line = `${path} (branch ${branch})`.replaceAll(/[\p{Cc}\p{Cf}]/gu, ' ');
    output.write(`${line}: ${finding}\n`);
    if (hasSession || isTooLong || !terminal) continue;
    if (!(await askYesNo(terminal, 'Remove this worktree? Its branch remains.'))) continue;
    const failure = await removeWorktree(root, path).catch((error) => error);
    output.write(failure ? `Not removed. ${failure.message}\n` : 'Removed.\n');
  }
  terminal?.close();
}
