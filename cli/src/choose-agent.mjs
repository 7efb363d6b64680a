/** Chooses the agent when the command line names none: the installed one, the one of the last start, or the user's choice. */

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { UsageError } from 'session-gateway-cli-kit/errors';
import { findProgram } from 'session-gateway-cli-kit/find-program';
import { AGENTS } from './agents.mjs';

/**
 * @param {{dir: string, home: string}} options `dir`: the directory in which the agent works; `home`: the folder of the state
 * @param {{env: Record<string, string | undefined>, input: NodeJS.ReadableStream & {isTTY?: boolean},
 *   output: NodeJS.WritableStream}} terminal
 * @returns {Promise<string>} a name in the table of agents
 * @throws {UsageError} when no agent is installed, or several are and no terminal can ask
 */
export async function chooseAgent({ dir, home }, { env, input, output }) {
  const found = Object.keys(AGENTS).filter((name) => findProgram(AGENTS[name].command, env));
  const names = Object.keys(AGENTS).join('|');
  if (found.length === 0) {
    throw new UsageError(
      'No agent is installed: none of their programs is on the PATH.' +
        ` Install one, such as with: npm install -g ${AGENTS.claude.package}.` +
        ` Or download one with npx: --npx --agent ${names}. Or give a command: -- my-agent --acp.`,
    );
  }
  if (found.length === 1) return found[0];
  const file = path.join(home, 'agents.json');
  const choices = readChoices(file);
  if (found.includes(choices[dir])) return choices[dir];
  if (!input.isTTY) throw new UsageError(`Several agents are installed. Choose one: --agent ${found.join('|')}.`);
  const name = await ask(found, { input, output });
  mkdirSync(home, { recursive: true });
  writeFileSync(file, `${JSON.stringify({ ...choices, [dir]: name }, null, 2)}\n`, { mode: 0o600 });
  return name;
}

/** @returns {Record<string, string>} directory -> name of its agent */
function readChoices(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return {};
  }
}

/**
 * Asks until the answer is one of the agents.
 * @param {string[]} found
 * @param {{input: NodeJS.ReadableStream, output: NodeJS.WritableStream}} streams
 */
async function ask(found, { input, output }) {
  const lines = found.map((name, i) => `  ${i + 1}  ${AGENTS[name].title}`);
  output.write(`These agents are installed:\n${lines.join('\n')}\n`);
  const terminal = createInterface({ input, output });
  const closed = new Promise((_, reject) => terminal.once('close', () => reject(new UsageError('No agent was chosen.'))));
  // Without a listener, a choice that is never awaited would be reported as an error.
  closed.catch(() => {});
  try {
    for (;;) {
      const answer = (await Promise.race([terminal.question(`Which one? [1-${found.length}] `), closed])).trim();
      const name = found[Number(answer) - 1] ?? found.find((candidate) => candidate === answer);
      if (name) return name;
    }
  } finally {
    terminal.close();
  }
}
