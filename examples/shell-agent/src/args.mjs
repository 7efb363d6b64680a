/** The command line: what it accepts, what it means, and the help text. */

import { homedir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

/** The address `npm run dev` serves the hub at. */
export const DEFAULT_HUB = 'http://127.0.0.1:8787';

export const HELP = `Usage: shell-agent --dir PATH [options]

Connects to a session gateway hub, serves PATH (git, files, search, uploads), and runs the
messages of its session as shell commands, after a person has approved them.

  --dir PATH          the directory to serve; commands run there, file access stays inside it
  --hub URL           address of the hub (default: HUB_URL, else ${DEFAULT_HUB})
  --token TOKEN       access token, SECRET or SECRET:NAMESPACE (default: CLI_API_TOKEN, else the
                      CLI_API_TOKEN line of .dev.vars in the project's root)
  --name NAME         a name for the session
  --tag TAG           the session's tag; the same tag is the same session (default: PATH, resolved)
  --flavor WORD       the agent kind to report (default: alpha)
  --model WORD        the model to report when the session is created
  --auto-approve      run commands without asking
  --local             start with the terminal in control: commands are typed here, and the web only
                      watches until it switches the session to remote mode
  --machine-id ID     id of this machine (default: made once for PATH and kept)
  --allow-dir PATH    a further directory in which sessions may be spawned; may be repeated
  --no-machine        serve the session only: no machine, so nothing can be spawned here
  --bridged           send the token only inside the CONNECT packet, not with the upgrade
  --verbose           log what happens on the connection
  --help              this text

Sessions that were spawned from here end with this process, however it ends. Started again, it takes
up its own session; the others are resumed from the web console.

State (machine ids, last message handled, the shell's directory and variables, uploads) is kept
under ~/.session-gateway, or under SHELL_AGENT_HOME when that is set.
`;

/** A mistake of the person who started the program: shown without a stack. */
export class UsageError extends Error {}

const OPTIONS = {
  'allow-dir': { type: 'string', multiple: true },
  'auto-approve': { type: 'boolean' },
  bridged: { type: 'boolean' },
  dir: { type: 'string' },
  flavor: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  hub: { type: 'string' },
  local: { type: 'boolean' },
  'machine-id': { type: 'string' },
  model: { type: 'string' },
  name: { type: 'string' },
  'no-machine': { type: 'boolean' },
  // With `session-id`, how a machine has a session taken up again: not for a person, who starts with its tag.
  resume: { type: 'string' },
  'session-id': { type: 'string' },
  tag: { type: 'string' },
  token: { type: 'string' },
  verbose: { type: 'boolean' },
};

/**
 * Reads the command line.
 * @param {string[]} argv arguments after the script's name
 * @param {Record<string, string | undefined>} env
 * @returns {{help: true} | Record<string, any>} plain options; the token may still be missing
 * @throws {UsageError} on an unknown option or a value that cannot be used
 */
export function readArgs(argv, env) {
  let values;
  try {
    ({ values } = parseArgs({ args: argv, options: OPTIONS, allowPositionals: false }));
  } catch (error) {
    throw new UsageError(`${error.message.split('. ')[0]}. Try --help.`);
  }
  if (values.help) return { help: true };
  if (!values.dir) throw new UsageError('--dir PATH is missing: which directory should be served? Try --help.');
  const flavor = values.flavor ?? 'alpha';
  if (!/^[A-Za-z0-9_.-]{1,64}$/.test(flavor)) {
    throw new UsageError('--flavor takes one word of letters, digits, ".", "_" and "-".');
  }
  if (values['machine-id'] !== undefined && !/^[A-Za-z0-9_.-]{1,128}$/.test(values['machine-id'])) {
    throw new UsageError('--machine-id takes up to 128 letters, digits, ".", "_" and "-".');
  }
  if (values.tag === '') throw new UsageError('--tag must not be empty.');
  // `npm run agent` changes to the project's root; a relative path means where the person was.
  const base = env.npm_lifecycle_event === 'agent' && env.INIT_CWD ? env.INIT_CWD : process.cwd();
  return {
    dir: path.resolve(base, values.dir),
    hub: hubAddress(values.hub ?? (env.HUB_URL || DEFAULT_HUB)),
    token: values.token,
    name: values.name,
    tag: values.tag,
    sessionId: values['session-id'],
    resume: values.resume,
    flavor,
    model: values.model,
    autoApprove: values['auto-approve'] ?? false,
    local: values.local ?? false,
    machineId: values['machine-id'],
    allowDirs: (values['allow-dir'] ?? []).map((one) => path.resolve(base, one)),
    machine: !values['no-machine'],
    bridged: values.bridged ?? false,
    verbose: values.verbose ?? false,
    home: env.SHELL_AGENT_HOME || `${homedir()}/.session-gateway`,
  };
}

/** Checks the hub's address and takes a trailing slash off. */
function hubAddress(text) {
  let url;
  try {
    url = new URL(text);
  } catch {
    throw new UsageError(`"${text}" is not an address; the hub's looks like ${DEFAULT_HUB}.`);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new UsageError(`The hub's address must start with http:// or https://, not ${url.protocol}//.`);
  }
  return url.href.replace(/\/+$/, '');
}
