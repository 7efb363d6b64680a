// The checks of `doctor`. The checks change nothing.

import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { AGENTS, programsOf } from '../../../cli/src/agents.mjs';
import { findProgram } from '../../../packages/cli-kit/src/find-program.mjs';
import { REACH_ADVICE } from '../../../packages/cli-kit/src/hub-client.mjs';
import { isOnThisMachine } from '../../../packages/cli-kit/src/token.mjs';
import { accessToken, DEV_VARS_NAME, devVarsExist, namespaceToken } from '../../lib/dev-vars.mjs';
import { CommandFailed, UserError } from '../../lib/errors.mjs';
import { portOption } from './options.mjs';
import { findHub, findPortProblem } from './port.mjs';
import { commandLine, startLine } from '../../lib/invocation.mjs';
import { DATA_DIR, DEV_VARS, inProject, IS_PACKAGE, LOCAL_STATE_DIR } from '../../lib/paths.mjs';
import { run } from '../../lib/run.mjs';
import { nodeIsReady } from '../../lib/node.mjs';
import { MIN_NODE } from '../../lib/versions.mjs';

/** With less free space, a hub with uploads and long conversations soon fills the disk. */
const MIN_FREE_BYTES = 200 * 1024 * 1024;

const TOKEN_TIMEOUT_MS = 5_000;

/**
 * @typedef {object} Finding
 * @property {string} subject
 * @property {'ok' | 'missing' | 'problem'} mark `missing`: the hub works without it
 * @property {string} state one sentence
 * @property {string} [advice] what to do
 */

/** @type {(subject: string, state: string, advice?: string) => Finding} */
const ok = (subject, state, advice) => ({ subject, mark: 'ok', state, advice });
/** @type {(subject: string, state: string, advice: string) => Finding} */
const missing = (subject, state, advice) => ({ subject, mark: 'missing', state, advice });
/** @type {(subject: string, state: string, advice: string) => Finding} */
const problem = (subject, state, advice) => ({ subject, mark: 'problem', state, advice });

/**
 * Runs all checks.
 * @param {string} address of the hub
 * @returns {Promise<Finding[]>}
 */
export async function examine(address) {
  const hub = await findHub(address);
  return [
    checkNode(),
    await checkRuntime(),
    ...(isOnThisMachine(address) ? [await checkPort(listenerOf(address), hub)] : []),
    checkData(),
    await checkHub(address, hub),
    checkAgents(),
    checkGit(),
  ];
}

function checkNode() {
  const { node } = process.versions;
  // The npm package checks the version before every command.
  if (IS_PACKAGE || nodeIsReady()) return ok('node', `Node ${node}.`);
  return problem('node', `Node ${node} is too old for wrangler, which needs ${MIN_NODE}.`, `Install one with: ${commandLine('setup')}`);
}

async function checkRuntime() {
  try {
    const wrangler = createRequire(inProject('package.json')).resolve('wrangler');
    const { default: program, version } = createRequire(wrangler)('workerd');
    await run(program, ['--version']);
    return ok('runtime', `workerd ${version} starts.`);
  } catch (error) {
    const install = IS_PACKAGE ? 'Install the package again, with its optional dependencies.' : `Install it with: ${commandLine('setup')}`;
    const unsupported = 'It needs Linux with glibc, macOS or Windows.';
    const reason = error instanceof CommandFailed ? error.output.trim().split('\n')[0] : error.message.split('\n')[0];
    return problem('runtime', `The runtime workerd does not start: ${reason.replace(/\.$/, '')}.`, `${install} ${unsupported}`);
  }
}

/**
 * @param {{host: string, port: number}} listening
 * @param {object | undefined} hub
 */
async function checkPort({ host, port }, hub) {
  if (hub) return ok('port', `A hub listens on port ${port}.`);
  const code = await findPortProblem({ host, port });
  if (code === undefined) return ok('port', `Port ${port} is free.`);
  const state = code === 'EADDRINUSE' ? `Another program listens on port ${port}.` : `Port ${port} cannot be used: ${code}.`;
  return problem('port', state, `Stop it, or start the hub on another port: ${startLine('--port N')}`);
}

function checkData() {
  // Before the first start, the data folder does not exist: then the nearest parent folder that exists is checked.
  let folder = DATA_DIR;
  while (!existsSync(folder)) folder = path.dirname(folder);
  try {
    accessSync(folder, constants.W_OK);
  } catch {
    return problem('data', `This user may not write in ${folder}.`, 'Change its owner, or choose another folder.');
  }
  const { bavail, bsize } = statfsSync(folder);
  const megabytes = Math.round((bavail * bsize) / 1024 / 1024);
  const space = `${megabytes} MB are free`;
  if (bavail * bsize < MIN_FREE_BYTES) return problem('data', `Only ${space} for ${DATA_DIR}.`, 'Free some space.');
  if (devVarsExist() && process.platform !== 'win32' && (statSync(DEV_VARS).mode & 0o044) !== 0) {
    return problem('data', `Other users of this computer can read the access token in ${DEV_VARS}.`, `Run: chmod 600 ${DEV_VARS}`);
  }
  const hasData = existsSync(LOCAL_STATE_DIR);
  return ok('data', hasData ? `The data is in ${DATA_DIR}; ${space}.` : `There is no data yet; ${space} for ${DATA_DIR}.`);
}

/** Returns where the hub of an address of this computer listens. An address without a port has the port of HTTP. @param {string} address */
function listenerOf(address) {
  const { hostname, port } = new URL(address);
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || '80') };
}

/**
 * @param {string} address
 * @param {{protocolVersion: number, version: string} | undefined} hub
 */
async function checkHub(address, hub) {
  const isLocal = isOnThisMachine(address);
  if (!hub && !isLocal) return problem('hub', `No hub answers at ${address}.`, REACH_ADVICE);
  if (!hub) return missing('hub', 'It is not running here.', `Start it with: ${startLine(portOption(listenerOf(address)))}`);
  const running = `Version ${hub.version} answers at ${address}`;
  // The secret of this computer must not be sent to another hub.
  if (!isLocal) return ok('hub', `${running}.`);
  if (!devVarsExist()) return ok('hub', `${running}; its data is in another folder.`);
  try {
    const secret = accessToken();
    const answers = await Promise.all([secret, namespaceToken(secret, 'default')].map((token) => acceptsToken(address, token)));
    if (answers.includes(true)) return ok('hub', `${running}, and accepts the access token of ${DEV_VARS_NAME}.`);
  } catch (error) {
    if (error instanceof UserError) return problem('hub', error.message, error.hint);
    return problem('hub', `${running}, but not to a request for its sessions: ${error.message}.`, 'Look at the output of the hub.');
  }
  return problem(
    'hub',
    `${running}, but refuses the access token of ${DEV_VARS_NAME}.`,
    'If it is a hub of another folder, choose another port; else stop it and start it again.',
  );
}

/** @param {string} address @param {string} token */
async function acceptsToken(address, token) {
  const headers = { authorization: `Bearer ${token}` };
  const { status } = await fetch(`${address}/api/sessions?limit=1`, { headers, signal: AbortSignal.timeout(TOKEN_TIMEOUT_MS) });
  return status === 200;
}

function checkGit() {
  if (findProgram('git', process.env)) return ok('git', 'It is on the PATH.');
  return missing('git', 'It is not on the PATH of this computer.', 'Agents here need it: install it from https://git-scm.com');
}

function checkAgents() {
  if (process.platform === 'win32') return missing('agents', 'On Windows, agents run only in WSL.', 'Install it with: wsl --install');
  const installed = Object.values(AGENTS).filter((entry) => programsOf(entry).some((name) => findProgram(name, process.env)));
  if (installed.length > 0) return ok('agents', `Found: ${installed.map(({ title }) => title).join(', ')}.`);
  const example = `npm install -g ${AGENTS.claude.terminal.package}`;
  return missing('agents', 'None is on the PATH of this computer.', `To use one here, install it, such as with: ${example}`);
}
