/** The options that all CLIs have: their defaults, their checks and their lines of the help text. */

import { homedir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { UsageError } from './errors.mjs';
import { DEFAULT_HUB, parseHubAddress } from './hub-address.mjs';
import { LOCAL_DEV_VARS_NAME } from './installation.mjs';
import { isNpmScript } from './npm-script.mjs';

/** A code that the console shows for a new device. The hub ignores case and the hyphen. */
const DEVICE_CODE = /^[A-Z0-9]{4}-?[A-Z0-9]{4}$/i;

/** The lines of the help text for the options of `readOptions`. The descriptions begin in column 23. */
export const HELP_LINES = `
  --hub URL           address of the hub (default: HUB_URL, else ${DEFAULT_HUB})
  --token-file FILE   file with the access token, SECRET or SECRET:NAMESPACE (default: the variable
                      CLI_API_TOKEN; else, for a hub on this computer, CLI_API_TOKEN in
                      ${LOCAL_DEV_VARS_NAME}). Without a token, this computer asks
                      for access: it shows a code that a person who is signed in approves
  --code CODE         connect this computer with a code that the console shows, which works once
  --token TOKEN       the access token itself, which all users of this computer can then read
  --name NAME         a name for the session
  --tag TAG           identifies the session on this computer
  --new               start a new session of PATH; later starts without --new continue it
  --model WORD        the model of the session
  --machine-id ID     id of this machine (default: generated once per PATH and stored)
  --allow-dir PATH    another directory in which sessions may be spawned; repeatable
  --no-machine        serve only the session: no sessions can be spawned here
  --bridged           send the token only in the CONNECT packet, not in the WebSocket upgrade
  --verbose           log connection events
  --version           the version of this program
  --help              this text`.slice(1);

/** @satisfies {import('node:util').ParseArgsOptionsConfig} */
const OPTIONS = /** @type {const} */ ({
  'allow-dir': { type: 'string', multiple: true },
  'auto-approve': { type: 'boolean' },
  bridged: { type: 'boolean' },
  code: { type: 'string' },
  dir: { type: 'string' },
  flavor: { type: 'string' },
  // Internal: a runner passes `--fork SESSION:SEQ` to the process of a forked session.
  fork: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  hub: { type: 'string' },
  'machine-id': { type: 'string' },
  model: { type: 'string' },
  name: { type: 'string' },
  new: { type: 'boolean' },
  'no-machine': { type: 'boolean' },
  // Internal: a runner passes `--resume` and `--session-id` to the process that resumes a session.
  resume: { type: 'string' },
  'session-id': { type: 'string' },
  tag: { type: 'string' },
  token: { type: 'string' },
  'token-file': { type: 'string' },
  verbose: { type: 'boolean' },
  version: { type: 'boolean' },
});

/**
 * The options that all CLIs have.
 * @typedef {object} Options
 * @property {boolean} [help] whether the user asks for the help text. If so, all other options are missing
 * @property {boolean} [version] whether the user asks for the version. If so, all other options are missing
 * @property {string} dir the directory to serve, absolute
 * @property {string} hub the address of the hub, without a trailing slash
 * @property {string} [token]
 * @property {string} [tokenFile]
 * @property {string} [code] that the console shows and that connects this computer
 * @property {string} [name] of the session
 * @property {string} [tag] of the session
 * @property {boolean} isNew whether to start a new session of the directory
 * @property {string} [sessionId] the hub's id of the session to resume
 * @property {string} [resume] the agent's id of the session to resume
 * @property {{sessionId: string, seq: number}} [fork] the session to fork, and the message before which its history ends
 * @property {string} flavor without `--flavor`, undefined until the program sets it
 * @property {string} [model]
 * @property {boolean} autoApprove
 * @property {string} [machineId]
 * @property {string[]} allowDirs further directories in which sessions may be spawned, absolute
 * @property {boolean} machine whether this process also serves the machine
 * @property {boolean} bridged whether to send the token only in the CONNECT packet
 * @property {boolean} verbose
 * @property {string} home the folder of the state
 */

/**
 * Parses a command line.
 * @param {string[]} argv arguments after the script's name
 * @param {Record<string, string | undefined>} env
 * @param {{homeVariable: string, home: string, dir?: string, options: Record<string, {type: 'string' | 'boolean', multiple?: boolean}>,
 *   maxPositionals?: number}} program
 *   `homeVariable`: the variable with the folder of the state; `home`: the default folder, relative to the home directory; `dir`: the
 *   default of `--dir`, which is otherwise required; `options`: the program's own options, whose values are returned as `values`;
 *   `maxPositionals`: limit on the arguments that are no options
 * @returns {Options & {values: Record<string, any>, positionals: string[]}}
 * @throws {UsageError} on an unknown option or an invalid value
 */
export function readOptions(argv, env, { homeVariable, home, dir: defaultDir, options, maxPositionals = 0 }) {
  // npm does not pass `--dir` in `npm run agent --dir PATH` to the program, but sets the variable `npm_config_dir`.
  const swallowedOption = isNpmScript(env) && ['agent', 'dir', 'hub'].find((name) => env[`npm_config_${name}`] !== undefined);
  if (swallowedOption) {
    const script = env.npm_lifecycle_event;
    throw new UsageError(
      `npm did not pass --${swallowedOption} to the program. Put two dashes before the options: npm run ${script} -- --${swallowedOption} …`,
    );
  }
  let parsed;
  try {
    parsed = parseArgs({ args: argv, options: { ...OPTIONS, ...options }, allowPositionals: maxPositionals > 0 });
  } catch (error) {
    throw new UsageError(`${error.message.split('. ')[0]}. See --help.`);
  }
  /** @type {ReturnType<typeof parseArgs<{options: typeof OPTIONS}>>['values']} */
  const values = parsed.values;
  if (parsed.positionals.length > maxPositionals) {
    throw new UsageError(`Unexpected argument '${parsed.positionals[maxPositionals]}'. See --help.`);
  }
  if (values.help || values.version) {
    return /** @type {ReturnType<typeof readOptions>} */ ({ help: values.help, version: values.version });
  }
  const dir = values.dir || defaultDir;
  if (!dir) throw new UsageError('--dir PATH is missing: name the directory to serve. See --help.');
  const { flavor } = values;
  if (flavor !== undefined && !/^[A-Za-z0-9_.-]{1,64}$/.test(flavor)) {
    throw new UsageError(`--flavor must be 1 to 64 letters, digits, ".", "_" and "-", not "${flavor}".`);
  }
  const machineId = values['machine-id'];
  if (machineId !== undefined && !/^[A-Za-z0-9_.-]{1,128}$/.test(machineId)) {
    throw new UsageError(`--machine-id must be 1 to 128 letters, digits, ".", "_" and "-", not "${machineId}".`);
  }
  if (values.token && values['token-file'] !== undefined) throw new UsageError('Give either --token-file or --token, not both.');
  if (values.code !== undefined && (values.token || values['token-file'] !== undefined)) {
    throw new UsageError('Give either --code or a token, not both.');
  }
  if (values.code !== undefined && !DEVICE_CODE.test(values.code)) {
    throw new UsageError(`--code must be 8 letters and digits, such as ABCD-EFGH, not "${values.code}".`);
  }
  if (values.tag === '') throw new UsageError('--tag must not be empty.');
  // npm starts scripts in the project's root; INIT_CWD is the directory in which the user ran npm.
  const base = isNpmScript(env) && env.INIT_CWD ? env.INIT_CWD : process.cwd();
  return {
    values,
    positionals: parsed.positionals,
    dir: path.resolve(base, dir),
    hub: parseHubAddress(values.hub ?? (env.HUB_URL || DEFAULT_HUB)),
    token: values.token,
    tokenFile: values['token-file'] === undefined ? undefined : path.resolve(base, values['token-file']),
    code: values.code,
    name: values.name,
    tag: values.tag,
    isNew: values.new ?? false,
    sessionId: values['session-id'],
    resume: values.resume,
    fork: parseFork(values.fork),
    flavor,
    model: values.model,
    autoApprove: values['auto-approve'] ?? false,
    machineId,
    allowDirs: (values['allow-dir'] ?? []).map((dir) => path.resolve(base, dir)),
    machine: !values['no-machine'],
    bridged: values.bridged ?? false,
    verbose: values.verbose ?? false,
    home: env[homeVariable] || path.join(homedir(), home),
  };
}

function parseFork(word) {
  if (word === undefined) return undefined;
  const [, sessionId, seq] = /^([A-Za-z0-9_.-]{1,128}):(\d{1,15})$/.exec(word) ?? [];
  if (seq === undefined) throw new UsageError(`--fork must be SESSION:SEQ, not "${word}".`);
  return { sessionId, seq: Number(seq) };
}
