// Prints the address of a running hub, the sign-in link, and the commands that connect an agent.

import { networkInterfaces } from 'node:os';
import { createInterface } from 'node:readline';
import { DEFAULT_HUB } from '../../../packages/cli-kit/src/hub-address.mjs';
import { DEV_VARS_NAME } from '../../lib/dev-vars.mjs';
import { commandLine, startLine } from '../../lib/invocation.mjs';
import { IS_PACKAGE, LOCAL_STATE_DIR, ROOT } from '../../lib/paths.mjs';
import { bold, dim } from '../../lib/progress.mjs';
import { createSignInCode, pairLink } from './sign-in.mjs';
import { localAddress, portOption } from './options.mjs';

/**
 * Returns the URLs, with IPv4 addresses, at which other devices reach the hub; empty if the hub does not listen on all interfaces.
 * @param {{host: string, port: number}} options
 */
function networkAddresses({ host, port }) {
  if (host !== '0.0.0.0' && host !== '::') return [];
  const interfaces = Object.values(networkInterfaces()).flat();
  return interfaces.filter(({ family, internal }) => family === 'IPv4' && !internal).map((entry) => `http://${entry.address}:${port}`);
}

/**
 * @param {{host: string, port: number}} listening
 * @param {string} token that the hub accepts
 * @param {boolean} isNamespaceToken whether `token` is the token of the namespace `default`, because the hub refuses the shared token
 */
export async function announce(listening, token, isNamespaceToken) {
  const address = localAddress(listening);
  const networkUrls = networkAddresses(listening);
  const tokenSource = isNamespaceToken
    ? `of the namespace default; the token of another namespace: ${commandLine('token', 'NAMESPACE')}`
    : `from ${DEV_VARS_NAME}`;
  const hub = hubOption(address);
  // By default the agent uses the shared token of .dev.vars.
  const variable = isNamespaceToken ? 'CLI_API_TOKEN=ACCESS_TOKEN ' : '';
  console.log(`
  ${bold('The hub is running.')} Ctrl-C stops it. Its data is stored in ${IS_PACKAGE || process.env.HUB_STATE_DIR ? LOCAL_STATE_DIR : '.wrangler/state'}.

  Address        ${address}${networkUrls.map((url) => `\n  On the network ${url}`).join('')}
  Access token   ${token}   ${dim(`(${tokenSource})`)}

${await signInLines(listening, token)}
${agentLines(variable, hub)}

  List the sessions:
    curl -H 'Authorization: Bearer ACCESS_TOKEN' ${address}/api/sessions
`);
}

/** Returns the option with the address, for a command; empty for the default address. @param {string} address */
const hubOption = (address) => (address === DEFAULT_HUB ? '' : ` --hub ${address}`);

/**
 * Prints a new link each time that the user presses Enter.
 * @param {{host: string, port: number}} listening
 * @param {string} token that the hub accepts
 */
export function printLinkOnEnter(listening, token) {
  if (!process.stdin.isTTY) return;
  const print = async () => console.log(`\n${await signInLines(listening, token)}\n`);
  createInterface({ input: process.stdin }).on('line', () => void print());
}

/**
 * Returns the lines with a link that signs a browser in, and with its QR code for a phone if the hub listens on the network.
 * @param {{host: string, port: number}} listening
 * @param {string} token
 */
async function signInLines(listening, token) {
  const address = localAddress(listening);
  const add = commandLine('devices', `add${hubOption(address)}`);
  const renewal = process.stdin.isTTY ? 'press Enter for a new one' : `for a new one: ${add}`;
  let signIn;
  try {
    signIn = await createSignInCode(address, token);
  } catch (error) {
    return `  Open the console, and sign in with the access token: ${address}\n  There is no link with a code: ${error.message}`;
  }
  const { link, code, minutes } = signIn;
  return `  Open the console, signed in (the link works once, for ${minutes} minutes; ${renewal}):
    ${link}
${await phoneLines(listening, code)}`;
}

/**
 * Returns the lines for a phone: a QR code of the link if the hub listens on the network, else how to get one.
 * @param {{host: string, port: number}} listening
 * @param {string} code
 */
async function phoneLines(listening, code) {
  const [address] = networkAddresses(listening);
  if (address === undefined) {
    const start = startLine(`${portOption(listening)} --host`.trim());
    return `\n  To sign in a phone in the same network with a QR code, start the hub with: ${start}`;
  }
  // In a log file, a QR code is useless and long.
  if (!process.stdout.isTTY) return '';
  // Imported dynamically, because this process may have installed the packages just now.
  const { qrCode } = await import('../../../packages/cli-kit/src/qr-code.mjs');
  return `\n  Or scan it with a phone in the same network:\n\n${qrCode(pairLink(address, code)).replace(/^/gm, '    ')}`;
}

/**
 * Returns the lines with the commands that connect an agent.
 * @param {string} variable an assignment for the agent's command line, or empty
 * @param {string} hub the agent's option with the address, or empty
 */
function agentLines(variable, hub) {
  if (IS_PACKAGE) {
    return `
  Connect a coding agent, in a second terminal:
    ${variable}npx session-gateway-agent --dir ~/my-project${hub}`;
  }
  const directory = /^[\w./-]+$/.test(ROOT) ? ROOT : `"${ROOT}"`;
  return `
  Connect a coding agent, or the example CLI, which runs a shell, in a second terminal in this folder:
    ${variable}npm run agent -- --agent claude --dir ${directory}${hub}
    ${variable}npm run agent:shell -- --dir ${directory}${hub}`;
}
