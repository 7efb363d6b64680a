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
import { AgentSessions } from './agent-sessions.mjs';
import { AGENTS, CONFIG_FILES, findAgent } from './agents.mjs';
import { ensureTrusted } from './ask-trust.mjs';
import { attach } from './attach.mjs';
import { chooseAgent } from './choose-agent.mjs';
import { chooseImport } from './import.mjs';
import { askForNpx, resolveAgentChoice, flavorOf, listAgents, resolveLaunch } from './launch.mjs';
import { withOffers } from './offers.mjs';
import { installService, removeService } from './service-manager.mjs';
import { permanentPlace } from './permanent-copy.mjs';
import { HOME_VARIABLE, describeService } from './service.mjs';
import { VERSION } from './version.mjs';
import { tidyWorktrees } from './worktrees.mjs';

/** How the user starts this program. */
const COMMAND = IS_REPOSITORY ? 'npm run agent --' : 'npx session-gateway-agent';

const HELP = `Usage: ${COMMAND} [--agent NAME] [--dir PATH] [options]
       ${COMMAND} [--dir PATH] [options] -- COMMAND [ARGUMENTS]
       ${COMMAND} import [--agent NAME] [--dir PATH] [options] [ID]
       ${COMMAND} attach [SESSION] [--dir PATH] [options]
       ${COMMAND} worktrees [--dir PATH] [options]

Connects a coding agent to a session gateway hub, and serves PATH (git, files, search, uploads).
COMMAND is any agent that speaks the Agent Client Protocol on its standard input and output.

import lists the sessions that the agent already has in PATH and in the directories below it, asks
for one (or takes the one with the agent's id ID), and serves it with its history.

attach continues a session of this computer in the agent's own terminal program: the session with
the hub's id SESSION, or else the latest session of PATH. The hub's session is read-only meanwhile.
When the program ends, what was said there is stored, and the web takes over again.

worktrees lists the git worktrees of sessions in PATH's repository. For each one whose session was
deleted, it asks whether to remove the worktree.

  --agent NAME        ${Object.keys(AGENTS).join(', ')}
                      (default: the installed one; with several, the terminal asks once per PATH)
  --dir PATH          the directory in which the agent works (default: the current one)
  --service ACTION    print, install or remove a user service (systemd, launchd) that keeps this
                      machine online with the other options (default: print)
  --trust             trust PATH: agents run its hooks and MCP servers as soon as a session starts.
                      Without --trust, the terminal asks once for each folder
  --npx               download the agent with npx if it is not installed, without asking
  --flavor WORD       the agent to report (default: the name of the agent or COMMAND)
  --option ID=VALUE   an option of the agent, such as effort=high; repeatable
  --auto-approve      approve all permission requests of the agent
${HELP_LINES}

When this process ends or is killed, the sessions spawned by it end too. A restart continues its own
session; resume the others from the web console.

State (machine ids, last handled message, the agent's session, uploads, trusted folders) is
stored in ~/.session-gateway-agent, or in SESSION_GATEWAY_HOME if that is set.
`;

/** The subcommands. With one of them as its first word, a command line does not serve a directory right away. */
const SUBCOMMANDS = /** @type {const} */ (['import', 'attach', 'worktrees']);

const SERVICE_ACTIONS = ['print', 'install', 'remove'];

/**
 * @typedef {import('session-gateway-cli-kit/args').Options & OwnOptions} AgentOptions
 * @typedef {object} OwnOptions
 * @property {string} [agent] the name in the table of agents
 * @property {string[]} [command] the command of an agent that is not in the table
 * @property {boolean} [npx] whether npx may download the agent
 * @property {boolean} [trust] whether the user trusts the directory
 * @property {Record<string, string>} [options] the values of the agent's options by id, for the start of a session
 * @property {'import' | 'attach' | 'worktrees'} [subcommand]
 * @property {string} [target] of the subcommand: the agent's id for `import`, the hub's id for `attach`
 * @property {number} [listTimeoutMs] time limit of a list of sessions, for tests
 * @property {number} [inUseIntervalMs] time between two attempts to open a session that another program uses, for tests
 * @property {string} [importSession] the agent's id of the session to import
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
  const hasActionWord = argv[at] === '--service' && SERVICE_ACTIONS.includes(argv[at + 1]);
  const action = hasActionWord ? argv[at + 1] : (argv[at].split('=')[1] ?? 'print');
  if (!SERVICE_ACTIONS.includes(action)) throw new UsageError(`--service must be one of ${SERVICE_ACTIONS.join(', ')}, not "${action}".`);
  return { argv: argv.toSpliced(at, hasActionWord ? 2 : 1), action };
}

/**
 * Parses the command line.
 * @param {string[]} commandLine
 * @param {Record<string, string | undefined>} env
 * @returns {AgentOptions}
 * @throws {UsageError}
 */
export function readArgs(commandLine, env) {
  const subcommand = SUBCOMMANDS.find((name) => name === commandLine[0]);
  const { argv, action } = takeService(subcommand ? commandLine.slice(1) : commandLine);
  const end = argv.indexOf('--');
  const command = end < 0 ? undefined : argv.slice(end + 1);
  /** @type {Parameters<typeof readOptions>[2]} */
  const programOptions = {
    homeVariable: HOME_VARIABLE,
    home: '.session-gateway-agent',
    dir: '.',
    // Internal: the machine passes `--import-session` to the process that imports a session.
    options: {
      agent: { type: 'string' },
      npx: { type: 'boolean' },
      trust: { type: 'boolean' },
      option: { type: 'string', multiple: true },
      'import-session': { type: 'string' },
    },
    maxPositionals: subcommand && subcommand !== 'worktrees' ? 1 : 0,
  };
  const { values, positionals, ...options } = readOptions(end < 0 ? argv : argv.slice(0, end), env, programOptions);
  if (options.help || options.version) return options;
  if (subcommand && (action || command)) throw new UsageError(`${subcommand} does not take --service or a command after --.`);
  const { agent, npx = false, option = [], trust = false } = values;
  if (action && options.isNew) throw new UsageError('--new cannot be used with --service: each restart would start a new session.');
  if (command?.length === 0) throw new UsageError('The command after -- is missing.');
  if (agent !== undefined && command) throw new UsageError('Give either --agent or a command after --, not both.');
  const service = action && { action, argv };
  if (action === 'remove') return { ...options, service };
  const subcommandOptions = subcommand && { subcommand, target: positionals[0] };
  const startOptions = { options: parseValues(option), importSession: values['import-session'], trust };
  return withFlavor({ ...options, agent, command, npx, service, ...startOptions, ...subcommandOptions });
}

/**
 * Parses the values of `--option`.
 * @param {string[]} words
 * @returns {Record<string, string>}
 * @throws {UsageError}
 */
function parseValues(words) {
  const entries = words.map((word) => {
    const [, id, value] = /^([^=]+)=([^]+)$/.exec(word) ?? [];
    if (id === undefined) throw new UsageError(`--option must be ID=VALUE, not "${word}".`);
    return [id, value];
  });
  return Object.fromEntries(entries);
}

/**
 * Adds the flavor to report, once the agent is known.
 * @param {AgentOptions} options
 */
function withFlavor({ flavor, agent, command, ...options }) {
  const isChosen = agent !== undefined || command !== undefined;
  const reported = isChosen ? (flavor ?? findAgent(agent)?.flavor ?? flavorOf(command ?? [agent])) : flavor;
  return { ...options, agent, command, flavor: reported };
}

/**
 * Checks the directory and the agent, and asks whether the directory is trusted and whether npx may download the agent. With `--service`, handles the service and
 * returns null: there is nothing to serve.
 * @param {AgentOptions} options
 */
async function prepare(options) {
  const { service } = options;
  if (service?.action === 'remove') return handleService(service, options);
  await resolveDirectory(options.dir, '--dir');
  const terminal = { input: process.stdin, output: process.stderr };
  if (options.subcommand === 'attach') {
    process.exitCode = await attach(options, { program, env: process.env, ...terminal });
    return null;
  }
  if (options.subcommand === 'worktrees') {
    await tidyWorktrees(options, { program, env: process.env, ...terminal });
    return null;
  }
  if (service?.action !== 'print') await ensureTrusted(options, terminal);
  if (options.agent === undefined && !options.command) {
    const agent = await chooseAgent(options, { env: process.env, ...terminal });
    const chosen = withFlavor({ ...options, agent });
    return prepare(service ? { ...chosen, service: { ...service, argv: [`--agent=${agent}`, ...service.argv] } } : chosen);
  }
  const npx = await askForNpx(options, { env: process.env, ...terminal });
  resolveLaunch({ ...options, npx }, process.env);
  if (options.subcommand === 'import') return chooseImport({ ...options, npx }, { program, env: process.env, ...terminal });
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
      await copy();
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
  createAgent: (dependencies) => new AcpAgent(dependencies),
  // A directory can have one session with each agent.
  tagOf: (root, { agent, command }) => `${root}#${agent ?? command.join(' ')}`,
  describeMachine: (options) => ({ agents: withOffers(options.home, listAgents(options, process.env)) }),
  machineMethods: (options) => new AgentSessions(/** @type {any} */ (options)).methods(),
  defaultAgent: ({ flavor }) => flavor,
  agentArgs,
  protectedNames: CONFIG_FILES,
  canFork: true,
  runsFolderCode: true,
  optionArgs: (values) => Object.entries(values).map(([id, value]) => `--option=${id}=${value}`),
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
 * @param {string} word an agent's name in the table, or a flavor
 * @param {AgentOptions} options
 */
function agentArgs(word, options) {
  const { agent, command } = resolveAgentChoice(word, options, process.env);
  const isAgentOfThisProcess = agent === options.agent && command === options.command;
  const common = [...(options.npx ? ['--npx'] : []), ...(isAgentOfThisProcess ? [`--flavor=${options.flavor}`] : [])];
  return command ? [...common, '--', ...command] : [...common, `--agent=${agent}`];
}
