/** Finds the program of an agent: on the PATH, in the folder of adapters, or through npx if the user agreed to that. */

import { existsSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { UsageError, UserError } from 'session-gateway-cli-kit/errors';
import { findProgram } from 'session-gateway-cli-kit/find-program';
import { adapterPlace, isInstalled } from './adapter.mjs';
import { AGENTS, findAgent } from './agents.mjs';
import { askYesNo } from './ask-yes-no.mjs';

/**
 * An agent that can be started.
 * @typedef {object} Launch
 * @property {string | undefined} name of the agent in the table; undefined for a command of the user
 * @property {string} title
 * @property {string[]} argv the program and its arguments
 * @property {import('./agents.mjs').AgentEntry | undefined} entry
 * @property {string} [adapterFolder] the folder into which the adapter must be fetched before the start, unless it is there
 */

/**
 * Returns the flavor of an agent that is not in the table: the name of its program, as at most 64 letters,
 * digits, ".", "_" and "-".
 */
export const flavorOf = (/** @type {string[]} */ [program]) =>
  path
    .basename(program)
    .replace(/[^A-Za-z0-9._-]/g, '-')
    .slice(0, 64) || 'agent';

/**
 * Lists the agents that a machine can start: first the agent of this process, then the installed ones.
 * @param {{agent?: string, command?: string[], flavor: string}} options the agent of this process, from its command line:
 *   its name in the table or a command, and the flavor to report to the hub
 * @param {Record<string, string | undefined>} env
 * @returns {{id: string, name: string, flavor: string}[]}
 */
export function listAgents({ agent, command, flavor }, env) {
  const first = command ? { id: flavor, name: path.basename(command[0]), flavor } : { id: agent, name: findAgent(agent).title, flavor };
  const others = Object.entries(AGENTS).filter(([id, entry]) => id !== first.id && isInstalled(entry, env));
  return [first, ...others.map(([id, { title, flavor: agentFlavor }]) => ({ id, name: title, flavor: agentFlavor }))];
}

/** @param {{title: string, package: string, command: string}} entry */
const notInstalledMessage = ({ title, package: name, command }) =>
  `${title} is not installed: there is no program ${command} on the PATH. Install it with: npm install -g ${name}`;

/**
 * Returns the start of a command line that runs a program of a package.
 * - `--ignore-scripts=false`: opencode needs its install script, and `npm run` may have passed on a setting that prevents the script.
 * - `env -u` removes the environment variables with the options of npx. Otherwise an npx that the agent runs later would
 *   search only this package, and run install scripts.
 */
const npxCommand = (name) => {
  const unset = ['package', 'yes', 'ignore_scripts'].flatMap((option) => ['-u', `npm_config_${option}`]);
  return ['npx', '--yes', '--ignore-scripts=false', `--package=${name}`, '--', 'env', ...unset];
};

/**
 * Finds how to start an agent.
 * @param {{agent?: string, command?: string[], npx?: boolean, home: string}} choice `agent`: its name in the table; `command`: any
 *   command that speaks the protocol; `npx`: whether npx may download a missing agent; `home`: the folder of the state
 * @param {Record<string, string | undefined>} env
 * @returns {Launch}
 * @throws {UsageError} when the agent is unknown
 * @throws {UserError} when it is not installed
 */
export function resolveLaunch({ agent, command, npx = false, home }, env) {
  if (command) {
    if (!findProgram(command[0], env)) throw new UserError(`There is no program ${command[0]} on the PATH.`);
    return { name: undefined, title: path.basename(command[0]), argv: command, entry: undefined };
  }
  const entry = findAgent(agent);
  if (!entry) {
    throw new UsageError(
      `There is no agent ${agent}. Choose one of ${Object.keys(AGENTS).join(', ')}, or give a command, such as: -- my-agent --acp`,
    );
  }
  const launch = { name: agent, title: entry.title, entry };
  if (findProgram(entry.command, env)) return { ...launch, argv: [entry.command, ...entry.args] };
  const { folder, program } = adapterPlace(entry, home);
  if (isInstalled(entry, env) || existsSync(program)) return { ...launch, argv: [program, ...entry.args], adapterFolder: folder };
  if (npx) return { ...launch, argv: [...npxCommand(entry.package), entry.command, ...entry.args] };
  // The program of an adapter comes with the adapter, so the user installs the agent's own program.
  // No `UsageError`: a service starts again, and so finds a program that is installed later.
  throw new UserError(notInstalledMessage(entry.adapterMegabytes ? { ...entry, ...entry.terminal } : entry));
}

/**
 * Asks at the terminal whether npx may download the agent, if it is not installed.
 * @param {{agent?: string, command?: string[], npx?: boolean}} choice
 * @param {{env: Record<string, string | undefined>, input: NodeJS.ReadableStream & {isTTY?: boolean},
 *   output: NodeJS.WritableStream}} terminal
 * @returns {Promise<boolean>} whether npx may be used
 */
export async function askForNpx({ agent, command, npx = false }, { env, input, output }) {
  const entry = findAgent(agent);
  if (npx || command || !entry || !input.isTTY || isInstalled(entry, env)) return npx;
  const terminal = createInterface({ input, output });
  try {
    return await askYesNo(terminal, `${entry.title} is not installed. Download ${entry.package} with npx and run it?`);
  } finally {
    terminal.close();
  }
}

/**
 * Returns the agent that a word of a client names, to start a session or to list the agent's sessions.
 * @param {string} word an agent's name in the table, or a flavor
 * @param {{agent?: string, command?: string[], flavor: string, npx?: boolean, home: string}} options the agent of this process, as in
 *   {@link listAgents}
 * @param {Record<string, string | undefined>} env
 * @returns {{agent?: string, command?: string[]}}
 * @throws {UserError} when no such agent can be started
 */
export function resolveAgentChoice(word, { agent, command, flavor, npx, home }, env) {
  if (word === agent || word === flavor) return { agent, command };
  const matching = Object.entries(AGENTS).filter(([name, entry]) => name === word || entry.flavor === word);
  if (matching.length === 0) throw new UsageError(`There is no agent ${word} on this machine.`);
  const [name] = matching.find(([, entry]) => isInstalled(entry, env)) ?? matching[0];
  // Throws if the agent is not installed.
  resolveLaunch({ agent: name, npx, home }, env);
  return { agent: name };
}
