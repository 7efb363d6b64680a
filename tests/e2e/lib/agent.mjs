/** The example CLI (`examples/shell-agent`) as a process of its own, as a person starts it. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { Recorder, within } from './await.mjs';
import { temporaryFolder } from './git.mjs';
import { ROOT } from './hub.mjs';

const ENTRY = path.join(ROOT, 'examples', 'shell-agent', 'index.mjs');

/**
 * Starts the agent and waits until it is connected. It ends with the test.
 * @param {import('node:test').TestContext} t
 * @param {import('./hub.mjs').Hub} hub
 * @param {{dir: string, namespace?: string, args?: string[]}} options
 * @returns {Promise<{sessionId: string, machineId?: string, end: () => Promise<[number | null, string | null]>}>} `end`
 *   asks it to end, as a person who closes the terminal does, and answers how it did
 */
export async function startAgent(t, hub, { dir, namespace, args = [] }) {
  const home = temporaryFolder(t);
  const child = spawn(process.execPath, [ENTRY, '--dir', dir, '--hub', hub.url, ...args], {
    env: { ...process.env, CLI_API_TOKEN: hub.token(namespace), SHELL_AGENT_HOME: home },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exit = once(child, 'exit');
  t.after(async () => {
    child.kill('SIGKILL');
    await exit;
  });
  const lines = new Recorder('the lines of the agent');
  for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on('line', (line) => lines.push(line));
  exit.then(([code, signal]) => lines.end(`it ended with ${signal ?? code}`));
  const idOf = async (kind) => (await lines.first((line) => line.startsWith(`${kind} `), `its ${kind}`, 60_000)).split(' ')[1];
  const sessionId = await idOf('session');
  const machineId = args.includes('--no-machine') ? undefined : await idOf('machine');
  return {
    sessionId,
    machineId,
    end: () => {
      child.kill('SIGTERM');
      return within(exit, 'the agent to end');
    },
  };
}
