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
 * @param {{dir: string, namespace?: string, args?: string[]}} options
 * @returns {Promise<{sessionId: string, machineId?: string, end: () => Promise<[number | null, string | null]>}>}
 */
export async function startAgent(t, hub, { dir, namespace, args = [] }) {
  const env = { CLI_API_TOKEN: hub.token(namespace), SHELL_AGENT_HOME: temporaryFolder(t) };
  const { lines, end } = start(t, 'the agent', process.execPath, [ENTRY, '--dir', dir, '--hub', hub.url, ...args], { env });
  const idOf = async (kind) => {
    const line = await lines.first((one) => one.startsWith(`${kind} `), `its ${kind}`, START_MS);
    return line.split(' ')[1];
  };
  return {
    sessionId: await idOf('session'),
    machineId: args.includes('--no-machine') ? undefined : await idOf('machine'),
    end,
  };
}
