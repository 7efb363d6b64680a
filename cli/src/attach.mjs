/** The command `attach`: continues a session of the hub in the agent's own terminal program, and hands it back when the program ends. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { realpathSync } from 'node:fs';
import { createConnection } from 'node:net';
import { describeDirectoryProblem } from 'session-gateway-cli-kit/directory-problem';
import { UsageError, UserError } from 'session-gateway-cli-kit/errors';
import { findProgram } from 'session-gateway-cli-kit/find-program';
import { HubClient } from 'session-gateway-cli-kit/hub-client';
import { makeLog, printable } from 'session-gateway-cli-kit/log';
import { SessionProcesses } from 'session-gateway-cli-kit/processes';
import { signIn } from 'session-gateway-cli-kit/sign-in';
import { readSessionStates } from 'session-gateway-cli-kit/state';
import { findAgent } from './agents.mjs';
import { ensureTrusted } from './ask-trust.mjs';
import { SOCKET_EXTENSION, createReader, sendLine } from './terminal-use.mjs';

const BRIDGE_START_TIMEOUT_MS = 60_000;

/**
 * A shell script that waits for a line on descriptor 3, and then becomes the program. If descriptor 3 closes without a line, the script
 * exits, and the program never starts. This happens if the process that serves the session (the bridge) could not store the process id.
 */
const WAIT_FOR_GO = 'read -r _ <&3 || exit 1; exec 3<&-; exec "$@"';

/**
 * @param {import('./program.mjs').AgentOptions} options `target`: the hub's session; by default the latest session of the directory
 * @param {{program: import('session-gateway-cli-kit/program').Program, env: Record<string, string | undefined>,
 *   input: NodeJS.ReadableStream & {isTTY?: boolean}, output: NodeJS.WritableStream}} context
 * @returns {Promise<number>} the exit code of the program
 * @throws {UserError}
 */
export async function attach(options, context) {
  const session = findSession(options);
  const entry = findAgent(session.saved?.agent);
  if (!entry) throw new UserError('This session cannot be continued in a terminal: the terminal program of its agent is unknown.');
  const { command, package: name } = entry.terminal;
  if (!findProgram(command, context.env)) {
    throw new UserError(
      `${entry.title} is not installed: there is no program ${command} on the PATH. Install it with: npm install -g ${name}`,
    );
  }
  let connection = await connect(session);
  const bridge = connection ? null : await startBridge(session, options, context);
  try {
    connection ??= await connect(session);
    if (!connection) throw new UserError('The process that serves the session does not accept the command attach. Start it again.');
    return await runProgram(connection, entry.title);
  } finally {
    connection?.destroy();
    await bridge?.end();
  }
}

/** Finds the state of the session on this computer. @param {import('./program.mjs').AgentOptions} options */
function findSession({ home, target: sessionId, dir, agent }) {
  const states = readSessionStates(home);
  if (sessionId !== undefined) {
    const found = states.find((state) => state.sessionId === sessionId);
    if (!found) throw new UsageError(`This computer has no session ${sessionId}. Run the command on the session's computer.`);
    return found;
  }
  const root = realpathSync(dir);
  const isOfDirectory = ({ tag = '', saved }) => tag.startsWith(`${root}#`) && (agent === undefined || saved?.agent === agent);
  const [latest] = states.filter(isOfDirectory).sort((a, b) => b.changedAt - a.changedAt);
  if (!latest) throw new UsageError(`This computer has no session of ${root}. Give the id of a session: attach SESSION`);
  return latest;
}

/** Connects to the process that serves the session. Resolves to null if no process does. */
async function connect({ base }) {
  const connection = createConnection(`${base}.${SOCKET_EXTENSION}`);
  try {
    await once(connection, 'connect');
    connection.on('error', () => {});
    return connection;
  } catch {
    return null;
  }
}

/**
 * Starts a process that serves the session while the program runs.
 * @param {ReturnType<typeof findSession>} session
 * @param {import('./program.mjs').AgentOptions} given
 * @param {Parameters<typeof attach>[1]} context
 */
async function startBridge({ sessionId, agentId, saved, hub }, given, { program, env, input, output }) {
  const options = { ...given, hub: hub ?? given.hub };
  const log = makeLog(options);
  const { token, namespace } = await signIn(options, { env, devVars: program.devVars, log, input, output });
  const { metadata } = await new HubClient({ hub: options.hub, token }).getSession(sessionId);
  await ensureTrusted({ ...options, dir: metadata.path }, { input, output });
  const quiet = { ...log, info: () => {} };
  const processes = new SessionProcesses({ program, token, namespace, home: options.home, log: quiet });
  const args = [
    `--dir=${metadata.path}`,
    `--hub=${options.hub}`,
    `--flavor=${metadata.flavor}`,
    ...(metadata.machineId ? [`--machine-id=${metadata.machineId}`] : []),
    ...(options.bridged ? ['--bridged'] : []),
    '--no-machine',
    `--session-id=${sessionId}`,
    `--resume=${agentId}`,
    `--agent=${saved.agent}`,
  ];
  // Detached, so that an interrupt at the terminal reaches only the program.
  const { success, error } = await processes.start(args, { readyTimeoutMs: BRIDGE_START_TIMEOUT_MS, id: sessionId, detached: true });
  if (!success) throw new UserError(error);
  return processes;
}

async function runProgram(connection, title) {
  const read = createReader(connection);
  sendLine(connection, { type: 'attach' });
  let answer = await read();
  if (answer?.type === 'waiting') {
    process.stderr.write(`${title} is working. Waiting for the end of its turn; Ctrl-C cancels.\n`);
    answer = await read();
  }
  if (answer?.type !== 'released') throw new UserError(answer?.error ?? 'The process that serves the session has ended.');
  const { cwd, argv } = answer;
  const problem = describeDirectoryProblem(cwd);
  if (problem !== null) throw new UserError(problem);
  // An interrupt at the terminal is for the program alone, so this process ignores it.
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGHUP']) process.on(signal, () => {});
  const child = spawn('/bin/sh', ['-c', WAIT_FOR_GO, 'sh', ...argv], { cwd, stdio: ['inherit', 'inherit', 'inherit', 'pipe'] });
  const exit = once(child, 'exit');
  await once(child, 'spawn');
  process.on('SIGTERM', () => child.kill('SIGTERM'));
  const go = /** @type {import('node:net').Socket} */ (child.stdio[3]);
  go.on('error', () => {});
  sendLine(connection, { type: 'running', pid: child.pid });
  const isPidStored = (await read())?.type === 'go';
  go.end(isPidStored ? '\n' : undefined);
  const [code, signal] = await exit;
  if (!isPidStored) throw new UserError('The process that serves the session has ended. Run the command again.');
  sendLine(connection, { type: 'ended' });
  const handBack = await read();
  if (!handBack)
    process.stderr.write('The process that served the session has ended. What was said here is stored when the session is resumed.\n');
  else if (handBack.error)
    process.stderr.write(`What was said here is not stored yet, because the agent did not start: ${printable(handBack.error)}\n`);
  else process.stderr.write('The session is back at the hub, with what was said here.\n');
  return signal ? 1 : code;
}
