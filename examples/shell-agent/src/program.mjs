/** The program: its command line, and the agent that it connects to the hub. */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { HELP_LINES, readOptions } from 'session-gateway-cli-kit/args';
import { LOCAL_DEV_VARS } from 'session-gateway-cli-kit/installation';
import { settingsByFlavor } from 'session-gateway-cli-kit/modes';
import { ShellAgent } from './agent.mjs';
import { Catalog } from './catalog.mjs';

const HELP = `Usage: shell-agent --dir PATH [options]

Connects to a session gateway hub, serves PATH (git, files, search, uploads), and runs the messages
of its session as shell commands. The user approves each command.

  --dir PATH          the directory to serve; commands start in it, file methods stay inside it
  --flavor WORD       the agent to report (default: alpha)
  --auto-approve      run commands without asking for permission
  --local             start with the terminal in control: commands are typed here, and messages of
                      the web wait until it switches the session to remote mode
${HELP_LINES}

When this process ends or is killed, the sessions spawned by it end too. A restart continues its own
session; resume the others from the web console.

State (machine ids, last handled message, the shell's directory and variables, uploads) is stored in
~/.session-gateway, or in SHELL_AGENT_HOME if that is set.
`;

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));

const HOME_VARIABLE = 'SHELL_AGENT_HOME';

/**
 * Parses the command line.
 * @param {string[]} argv
 * @param {Record<string, string | undefined>} env
 * @returns {import('session-gateway-cli-kit/args').Options & {local?: boolean}}
 * @throws {import('session-gateway-cli-kit/errors').UsageError}
 */
export function readArgs(argv, env) {
  /** @type {Parameters<typeof readOptions>[2]} */
  const programOptions = { homeVariable: HOME_VARIABLE, home: '.session-gateway', options: { local: { type: 'boolean' } } };
  const { values, ...options } = readOptions(argv, env, programOptions);
  return options.help ? options : { ...options, flavor: options.flavor ?? 'alpha', local: values.local ?? false };
}

/** @type {import('session-gateway-cli-kit/program').Program} */
export const program = {
  name: 'shell-agent',
  version,
  help: HELP,
  entry: fileURLToPath(new URL('../index.mjs', import.meta.url)),
  devVars: LOCAL_DEV_VARS,
  homeVariable: HOME_VARIABLE,
  readArgs,
  settings: settingsByFlavor,
  createAgent: (dependencies) => new ShellAgent(dependencies),
  describe: async ({ root }) => ({ tools: ['Bash', 'TodoWrite'], slashCommands: await new Catalog(root).commands() }),
  defaultAgent: () => 'alpha',
  agentArgs: (agent) => [`--flavor=${agent}`],
};
