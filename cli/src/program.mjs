/** The program: its command line, and the agent that it connects to the hub. */

import { homedir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { resolveDirectory } from 'session-gateway-cli-kit/app';
import { HELP_LINES, readOptions } from 'session-gateway-cli-kit/args';
import { UsageError } from 'session-gateway-cli-kit/errors';
import { IS_REPOSITORY, LOCAL_DEV_VARS } from 'session-gateway-cli-kit/installation';
import { settingsByFlavor } from 'session-gateway-cli-kit/modes';
import { makeLog } from 'session-gateway-cli-kit/log';
import { signIn } from 'session-gateway-cli-kit/sign-in';
import { AcpAgent } from './agent.mjs';
import { AGENTS, findAgent } from './agents.mjs';
import { chooseAgent } from './choose-agent.mjs';
import { askForNpx, chooseForSpawn, agentKindOf, listAgents, resolveLaunch } from './launch.mjs';
import { installService, removeService } from './service-manager.mjs';
import { permanentPlace } from './permanent-copy.mjs';
import { HOME_VARIABLE, describeService } from './service.mjs';
import { VERSION } from './version.mjs';

/** How the user starts this program. */
const COMMAND = IS_REPOSITORY ? 'npm run agent --' : 'npx session-gateway-agent';

const HELP = `Usage: ${COMMAND} [--agent NAME] [--dir PATH] [options]
       ${COMMAND} [--dir PATH] [options] -- COMMAND [ARGUMENTS]

Connects a coding agent to a session gateway hub, and serves PATH (git, files, search, uploads).
COMMAND is any agent that speaks the Agent Client Protocol on its standard input and output.

  --agent NAME        ${Object.keys(AGENTS).join(', ')}
                      (default: the installed one; with several, the terminal asks once per PATH)
  --dir PATH          the directory in which the agent works (default: the current one)
  --service ACTION    print, install or remove a user service (systemd, launchd) that keeps this
                      machine online with the other options (default: print)
  --npx               download the agent with npx if it is not installed, without asking
  --flavor WORD       the agent to report (default: the name of the agent or COMMAND)
  --auto-approve      approve all permission requests of the agent
${HELP_LINES}

When this process ends or is killed, the sessions spawned by it end too. A restart continues its own
session; resume the others from the web console.

State (machine ids, last handled message, the agent's session, uploads) is stored in
~/.session-gateway-agent, or in SESSION_GATEWAY_HOME if that is set.
`;

const SERVICE_ACTIONS = ['print', 'install', 'remove'];

/**
 * @typedef {import('session-gateway-cli-kit/args').Options & OwnOptions} AgentOptions
 * @typedef {object} OwnOptions
 * @property {string} [agent] the name in the table of agents
 * @property {string[]} [command] the command of an agent that is not in the table
 * @property {boolean} [npx] whether npx may download the agent
 * @property {{action: string, argv: string[]}} [service] what to do with the service, and its command line
 */

/**
 * Removes `--service [ACTION]` from a command line and returns the action.
 * @param {string[]} argv
 * @returns {{argv: string[], action?: string}}
 * @throws {UsageError}
 */
function takeService(argv) {
  const at = argv.findIndex((word) => word === '--service' || word.startsWith('--service='));
  if (at < 0 || argv.slice(0, at).includes('--')) return { argv };
  const isNext = argv[at] === '--service' && SERVICE_ACTIONS.includes(argv[at + 1]);
  const action = isNext ? argv[at + 1] : (argv[at].split('=')[1] ?? 'print');
  if (!SERVICE_ACTIONS.includes(action)) throw new UsageError(`--service must be one of ${SERVICE_ACTIONS.join(', ')}, not "${action}".`);
  return { argv: argv.toSpliced(at, isNext ? 2 : 1), action };
}

/**
 * Parses the command line.
 * @param {string[]} commandLine
 * @param {Record<string, string | undefined>} env
 * @returns {AgentOptions}
 * @throws {UsageError}
 */
export function readArgs(commandLine, env) {
  const { argv, action } = takeService(commandLine);
  const end = argv.indexOf('--');
  const command = end < 0 ? undefined : argv.slice(end + 1);
  /** @type {Parameters<typeof readOptions>[2]} */
  const more = {
    homeVariable: HOME_VARIABLE,
    home: '.session-gateway-agent',
    dir: '.',
    options: { agent: { type: 'string' }, npx: { type: 'boolean' } },
  };
  const { values, ...options } = readOptions(end < 0 ? argv : argv.slice(0, end), env, more);
  if (options.help) return options;
  const { agent, npx = false } = values;
  if (action && options.isNew) throw new UsageError('--new cannot be used with --service: each restart would start a new session.');
  if (command?.length === 0) throw new UsageError('The command after -- is missing.');
  if (agent !== undefined && command) throw new UsageError('Give either --agent or a command after --, not both.');
  const service = action && { action, argv };
  if (action === 'remove') return { ...options, service };
  return withFlavor({ ...options, agent, command, npx, service });
}

/**
 * Adds the agent kind to report, once the agent is known.
 * @param {AgentOptions} options
 */
function withFlavor({ flavor, agent, command, ...options }) {
  const isChosen = agent !== undefined || command !== undefined;
  const kind = isChosen ? (flavor ?? findAgent(agent)?.flavor ?? agentKindOf(command ?? [agent])) : flavor;
  return { ...options, agent, command, flavor: kind };
}

/**
 * Checks the directory and the agent, and asks whether npx may download the agent. With `--service`, handles the service and
 * returns null: there is nothing to serve.
 * @param {AgentOptions} options
 */
async function prepare(options) {
  const { service } = options;
  if (service?.action === 'remove') return handleService(service, options);
  await resolveDirectory(options.dir, '--dir');
  if (options.agent === undefined && !options.command) {
    const agent = await chooseAgent(options, { env: process.env, input: process.stdin, output: process.stderr });
    const chosen = withFlavor({ ...options, agent });
    return prepare(service ? { ...chosen, service: { ...service, argv: [`--agent=${agent}`, ...service.argv] } } : chosen);
  }
  const npx = await askForNpx(options, { env: process.env, input: process.stdin, output: process.stderr });
  resolveLaunch({ ...options, npx }, process.env);
  if (!service) return { ...options, npx };
  const npxArgs = npx && !options.npx ? ['--npx'] : [];
  return handleService({ ...service, argv: [...npxArgs, ...service.argv] }, options);
}

/**
 * Prints, installs or removes the service of the directory.
 * @param {AgentOptions['service']} service
 * @param {AgentOptions} options
 * @returns {Promise<null>}
 */
async function handleService({ action, argv }, options) {
  const { env, platform, execPath: node, stdin: input, stderr: output } = process;
  const { devVars } = program;
  const { entry, copy } = permanentPlace(program.entry, { stateFolder: options.home, version: VERSION });
  const service = describeService({ argv, env, platform, node, entry, dir: options.dir, home: homedir() });
  const act = {
    print: () => service.define(),
    install: async () => {
      const { token, isPaired } = await signIn(options, { env, devVars, log: makeLog(), input, output });
      copy();
      // The service reads the stored token of a paired computer itself.
      return installService(service, { token: isPaired ? null : token, env });
    },
    remove: () => removeService(service, { env }),
  }[action];
  process.stdout.write(await act());
  if (action === 'print') output.write(`This is ${service.file}. To install and start it: --service install\n`);
  return null;
}

/** @type {import('session-gateway-cli-kit/program').Program} */
export const program = {
  name: 'session-gateway-agent',
  version: VERSION,
  help: HELP,
  entry: fileURLToPath(new URL('../index.mjs', import.meta.url)),
  devVars: LOCAL_DEV_VARS,
  homeVariable: HOME_VARIABLE,
  readArgs,
  prepare,
  settings,
  createAgent: (parts) => new AcpAgent(parts),
  // One directory can have a session with each agent.
  tagOf: (root, { agent, command }) => `${root}#${agent ?? command.join(' ')}`,
  describeMachine: (options) => ({ agents: listAgents(options, process.env) }),
  defaultAgent: ({ flavor }) => flavor,
  agentArgs,
};

/**
 * Returns the settings at the start. They are not checked yet: the agent reports its modes and models once it runs.
 * @param {AgentOptions} options
 * @param {{permissionMode?: string, modelMode?: string}} session the hub's session
 */
function settings(options, session) {
  const { permissionMode, autoApprove } = settingsByFlavor(options, session);
  const stored = options.autoApprove ? permissionMode : (session.permissionMode ?? 'default');
  return { permissionMode: stored, modelMode: session.modelMode ?? undefined, autoApprove };
}

/**
 * @param {string} word an agent's name in the table, or an agent kind
 * @param {AgentOptions} options
 */
function agentArgs(word, options) {
  const { agent, command } = chooseForSpawn(word, options, process.env);
  const isOwn = agent === options.agent && command === options.command;
  const common = [...(options.npx ? ['--npx'] : []), ...(isOwn ? [`--flavor=${options.flavor}`] : [])];
  return command ? [...common, '--', ...command] : [...common, `--agent=${agent}`];
}
