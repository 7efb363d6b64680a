/** The example CLI (`examples/shell-agent`) as a process of its own, as a person starts it. */

import path from 'node:path';
import { start } from './children.mjs';
import { temporaryFolder } from './git.mjs';
import { ROOT } from './hub.mjs';

const ENTRY = path.join(ROOT, 'examples', 'shell-agent', 'index.mjs');

/** How long the agent may take to start and to connect. */
const START_MS = 60_000;

/**
 * Starts the agent and waits until it is connected and serves its methods.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {import('./hub.mjs').Hub} hub
 * @param {{dir: string, home?: string, namespace?: string, args?: string[]}} options `home`: what an earlier one kept
 * @returns {Promise<{sessionId: string, machineId?: string, lines: import('./await.mjs').Recorder<string>,
 *   end: () => Promise<[number | null, string | null]>, kill: () => Promise<[number | null, string | null]>}>}
 */
export async function startAgent(t, hub, { dir, home = temporaryFolder(t), namespace, args = [] }) {
  const env = { CLI_API_TOKEN: hub.token(namespace), SHELL_AGENT_HOME: home };
  const { lines, end, kill } = start(t, 'the agent', process.execPath, [ENTRY, '--dir', dir, '--hub', hub.url, ...args], { env });
  const idOf = async (kind) => {
    const line = await lines.first((one) => one.startsWith(`${kind} `), `its ${kind}`, START_MS);
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

/** Whether an event says that the agent waits for the next message. */
export const isReady = ({ type, message }) => type === 'message-received' && message.content.content?.data?.type === 'ready';

/** The one part of a message of the agent: a text, a call of a tool, or its result. */
export const part = ({ content }) => content.content?.data?.message?.content?.[0];

/**
 * What the agent has said in a session, in order: `text`, `> command`, `= output`.
 * @param {import('./web.mjs').Web} web
 * @param {string} id
 * @returns {Promise<string[]>}
 */
export async function conversation(web, id) {
  const lines = [];
  for (const message of await web.history(id)) {
    const said = part(message);
    if (said?.type === 'text') lines.push(said.text);
    else if (said?.type === 'tool_use') lines.push(`> ${said.input.command ?? said.name}`);
    else if (said?.type === 'tool_result' && said.content !== '') lines.push(`= ${said.content.trimEnd()}`);
  }
  return lines;
}

/**
 * Waits until the agent asks for a command, and answers the request's id.
 * @param {import('./web.mjs').Feed} feed events of the session
 * @param {string} command
 */
export async function requestFor(feed, command) {
  const isAsked = ({ data }) => Object.values(data?.agentState?.requests ?? {}).some((one) => one.arguments.command === command);
  const { data } = await feed.next(isAsked, `the permission request for ${command}`);
  return Object.keys(data.agentState.requests)[0];
}
