/** Starts a CLI as a process, by default the example (`examples/shell-agent`), and reads its conversations. */

import path from 'node:path';
import { start } from './children.mjs';
import { temporaryFolder } from './git.mjs';
import { ROOT } from './hub.mjs';

/** The main module of the example. */
const EXAMPLE = path.join(ROOT, 'examples', 'shell-agent', 'index.mjs');

/** @typedef {ReturnType<typeof start>} Child */

/**
 * Starts the CLI and waits until it has printed the ids of its session and its machine. The CLI prints the ids once it is connected
 * and has registered its methods.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {import('./hub.mjs').Hub} hub
 * @param {{dir: string, home?: string, namespace?: string, args?: string[], entry?: string, env?: Record<string, string>}} options
 *   `home`: the folder of the CLI's state; `entry`: the main module of another CLI
 * @returns {Promise<{sessionId: string, machineId?: string, lines: import('../../../scripts/lib/await.mjs').Recorder<string>,
 *   end: Child['end'], kill: Child['kill']}>}
 */
export async function startAgent(t, hub, { dir, home = temporaryFolder(t), namespace, args = [], entry = EXAMPLE, env = {} }) {
  const variables = { CLI_API_TOKEN: hub.token(namespace), SHELL_AGENT_HOME: home, SESSION_GATEWAY_HOME: home, ...env };
  // The agents of the other CLI run the hooks of their folder, so that CLI needs the user's trust.
  const trust = entry === EXAMPLE ? [] : ['--trust'];
  const command = [entry, '--dir', dir, '--hub', hub.url, ...trust, ...args];
  const { lines, end, kill } = start(t, 'the agent', process.execPath, command, { env: variables });
  const idOf = async (kind) => {
    const line = await lines.first((text) => text.startsWith(`${kind} `), `its ${kind}`);
    return line.split(' ')[1];
  };
  return {
    sessionId: await idOf('session'),
    machineId: args.includes('--no-machine') ? undefined : await idOf('machine'),
    lines,
    end,
    kill,
  };
}

/** Whether an event is the `ready` message, which a CLI sends at the end of a turn. */
export const isReady = ({ type, message }) => type === 'message-received' && message.content.content?.data?.type === 'ready';

/** Returns the content part of an agent's message: a text, a tool call or a tool result. */
export const partOf = ({ content }) => content.content?.data?.message?.content?.[0];

/**
 * Reads the agent's messages of a session, oldest first. Each message is a line: a text, `> ` and a command, or `= ` and an output.
 * @param {import('../../../scripts/product/clients/web.mjs').Web} web
 * @param {string} id
 * @returns {Promise<string[]>}
 */
export async function readConversation(web, id) {
  const lines = [];
  for (const message of await web.readHistory(id)) {
    const part = partOf(message);
    if (part?.type === 'text') lines.push(part.text);
    else if (part?.type === 'tool_use') lines.push(`> ${part.input.command ?? part.name}`);
    else if (part?.type === 'tool_result' && part.content !== '') lines.push(`= ${part.content.trimEnd()}`);
  }
  return lines;
}

/**
 * Waits until the agent requests permission for a command, and returns the request's id.
 * @param {import('../../../scripts/product/clients/web.mjs').Feed} feed events of the session
 * @param {string} command
 */
export async function waitForRequest(feed, command) {
  const findId = ({ data }) =>
    Object.entries(data?.agentState?.requests ?? {}).find(([, request]) => request.arguments.command === command)?.[0];
  return findId(await feed.next((event) => findId(event) !== undefined, `the permission request for ${command}`));
}
