/** The command `import`: chooses a session that an agent already has, and where it is served. */

import { createInterface } from 'node:readline/promises';
import { resolveDirectory } from 'session-gateway-cli-kit/app';
import { UsageError, UserError } from 'session-gateway-cli-kit/errors';
import { HubClient } from 'session-gateway-cli-kit/hub-client';
import { LockHeldError } from 'session-gateway-cli-kit/lock';
import { makeLog } from 'session-gateway-cli-kit/log';
import { signIn } from 'session-gateway-cli-kit/sign-in';
import { StateStore } from 'session-gateway-cli-kit/state';
import { AgentSessions } from './agent-sessions.mjs';
import { ensureTrusted } from './ask-trust.mjs';

/**
 * Chooses the session. If another process already serves the directory's machine, that process imports the session.
 * @param {import('./program.mjs').AgentOptions} options `target`: the agent's id of the session; without it, the user is asked
 * @param {{program: import('session-gateway-cli-kit/program').Program, env: Record<string, string | undefined>,
 *   input: NodeJS.ReadableStream & {isTTY?: boolean}, output: NodeJS.WritableStream}} context
 * @returns {Promise<import('./program.mjs').AgentOptions | null>} the options with which this process serves the session; null if another
 *   process does
 * @throws {UserError}
 */
export async function chooseImport(options, { program, env, input, output }) {
  const log = makeLog(options);
  const { token, namespace } = await signIn(options, { env, devVars: program.devVars, log, input, output });
  const served = await Promise.all([options.dir, ...options.allowDirs].map((dir) => resolveDirectory(dir, '--dir')));
  const [root] = served;
  const store = new StateStore({ home: options.home, hub: options.hub, namespace });
  const client = new HubClient({ hub: options.hub, token });
  const sessionsOptions = { ...options, program, root, store, client, log, spawner: { directories: served } };
  const sessions = new AgentSessions(/** @type {any} */ (sessionsOptions));
  const id = options.target ?? (await askForSession(sessions, { input, output }));
  // If the agent does not list its sessions, the session is imported from the directory in which the command runs.
  const located = await sessions.locate({ id }).catch((error) => {
    if (options.target === undefined || !/does not list/.test(error.message)) throw error;
    return sessions.locate({ id, directory: root });
  });
  const { existing, agentId, directory, tag } = located;
  if (existing?.active) return reportImported(existing.id, options.hub, output);
  await ensureTrusted({ ...options, dir: directory }, { input, output });
  const machineId = options.machineId ?? store.loadMachineId(root);
  if (isMachineServed(store, machineId)) {
    const agent = options.agent ?? options.flavor;
    const { success, sessionId, error } = await client.importAgentSession(machineId, { agent, id, directory });
    if (!success) throw new UserError(error ?? 'The machine did not import the session and gave no reason.');
    return reportImported(sessionId, options.hub, output);
  }
  const { code: _code, subcommand: _subcommand, ...others } = options;
  const continued = existing ? { sessionId: existing.id, resume: agentId } : { tag, importSession: id };
  return /** @type {any} */ ({ ...others, ...continued, dir: directory, allowDirs: [...options.allowDirs, root], machineId });
}

function reportImported(sessionId, hub, output) {
  output.write(`Imported: ${hub}/sessions/${sessionId}\n`);
  return null;
}

/** Whether another process serves a machine. */
function isMachineServed(store, machineId) {
  try {
    store.lockMachine(machineId)();
    return false;
  } catch (error) {
    if (error instanceof LockHeldError) return true;
    throw error;
  }
}

/** Lists the sessions page by page, until the user has chosen one. @returns {Promise<string>} the agent's id of the session */
async function askForSession(sessions, { input, output }) {
  /** @type {Awaited<ReturnType<AgentSessions['list']>>['sessions']} */
  const listed = [];
  const terminal = createInterface({ input, output });
  const closed = new Promise((_, reject) => terminal.once('close', () => reject(new UsageError('No session was chosen.'))));
  closed.catch(() => {});
  try {
    for (let cursor; ; ) {
      const page = await sessions.list({ cursor });
      listed.push(...page.sessions);
      if (listed.length === 0) throw new UserError('The agent has no sessions in this directory.');
      for (const [index, session] of page.sessions.entries())
        output.write(lineOf(listed.length - page.sessions.length + index + 1, session));
      const isLast = page.nextCursor === undefined;
      const question = `Import which one? [1-${listed.length}${isLast ? '' : ', or Enter for more'}] `;
      const id = await askForNumber(question, { listed, isLast, terminal, closed });
      if (id !== null) return id;
      cursor = page.nextCursor;
    }
  } finally {
    terminal.close();
  }
}

/** @returns {Promise<string | null>} null if the user asks for more sessions */
async function askForNumber(question, { listed, isLast, terminal, closed }) {
  for (;;) {
    const answer = (await Promise.race([terminal.question(question), closed])).trim();
    if (answer === '' && !isLast) return null;
    const chosen = listed[Number(answer) - 1];
    if (chosen) return chosen.id;
  }
}

/** Describes a session in one line. Texts of the agent must not control the terminal. */
function lineOf(number, { id, title = id, directory, updatedAt, sessionId }) {
  const time = updatedAt === undefined ? '' : new Date(updatedAt).toLocaleString('sv').slice(0, 16);
  const words = [String(number).padStart(3), time.padEnd(16), title, `(${directory})`, sessionId === undefined ? '' : '[in the hub]'];
  return `${words
    .join('  ')
    .replaceAll(/[\p{Cc}\p{Cf}]/gu, ' ')
    .trimEnd()}\n`;
}
