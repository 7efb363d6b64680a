/**
 * Chooses the agent when the command line does not name an agent:
 * 1. the only agent that is installed
 * 2. the agent that the user chose earlier for the same directory
 * 3. the agent that the user chooses on the terminal
 */

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { UsageError, UserError } from 'session-gateway-cli-kit/errors';
import { isInstalled } from './adapter.mjs';
import { AGENTS } from './agents.mjs';

/**
 * @param {{dir: string, home: string}} options `dir`: the directory in which the agent works; `home`: the folder of the state
 * @param {{env: Record<string, string | undefined>, input: NodeJS.ReadableStream & {isTTY?: boolean},
 *   output: NodeJS.WritableStream}} terminal
 * @returns {Promise<string>} a name in the table of agents
 * @throws {UserError} when no agent is installed
 * @throws {UsageError} when several agents are installed and there is no terminal to ask the user
 */
export async function chooseAgent({ dir, home }, { env, input, output }) {
  const installed = Object.keys(AGENTS).filter((name) => isInstalled(AGENTS[name], env));
  const names = Object.keys(AGENTS).join('|');
  if (installed.length === 0) {
    throw new UserError(
      'No agent is installed: none of their programs is on the PATH.' +
        ` Install one, such as with: npm install -g ${AGENTS.claude.terminal.package}.` +
        ` Or download one with npx: --npx --agent ${names}. Or give a command: -- my-agent --acp.`,
    );
  }
  if (installed.length === 1) return installed[0];
  const file = path.join(home, 'agents.json');
  const choices = readChoices(file);
  if (installed.includes(choices[dir])) return choices[dir];
  if (!input.isTTY) throw new UsageError(`Several agents are installed. Choose one: --agent ${installed.join('|')}.`);
  const name = await askForAgent(installed, { input, output });
  mkdirSync(home, { recursive: true });
  writeFileSync(file, `${JSON.stringify({ ...choices, [dir]: name }, null, 2)}\n`, { mode: 0o600 });
  return name;
}

/** @returns {Record<string, string>} by directory: the name of the agent that the user chose */
function readChoices(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return {};
  }
}

/**
 * Asks the user until the answer is the number or the name of an installed agent.
 * @param {string[]} installed
 * @param {{input: NodeJS.ReadableStream, output: NodeJS.WritableStream}} streams
 */
async function askForAgent(installed, { input, output }) {
  const lines = installed.map((name, i) => `  ${i + 1}  ${AGENTS[name].title}`);
  output.write(`These agents are installed:\n${lines.join('\n')}\n`);
  const terminal = createInterface({ input, output });
  const closed = new Promise((_, reject) => terminal.once('close', () => reject(new UsageError('No agent was chosen.'))));
  // Prevents an unhandled rejection if the terminal closes while no question waits for an answer.
  closed.catch(() => {});
  try {
    for (;;) {
      const answer = (await Promise.race([terminal.question(`Which one? [1-${installed.length}] `), closed])).trim();
      const name = installed[Number(answer) - 1] ?? installed.find((candidate) => candidate === answer);
      if (name) return name;
    }
  } finally {
    terminal.close();
  }
}
