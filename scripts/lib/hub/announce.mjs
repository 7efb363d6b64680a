// Prints the address of a running hub, the sign-in link, and the commands that connect an agent.

import { networkInterfaces } from 'node:os';
import { createInterface } from 'node:readline';
import { DEV_VARS_NAME } from '../dev-vars.mjs';
import { commandLine, startLine } from '../invocation.mjs';
import { DATA_DIR, IS_PACKAGE, ROOT } from '../paths.mjs';
import { bold, dim } from '../progress.mjs';
import { createSignInCode, pairLink } from '../sign-in.mjs';
import { DEFAULT_PORT, localAddress } from './options.mjs';

/** Returns the IPv4 addresses at which other devices reach a hub on all interfaces. @param {{host: string, port: number}} options */
function networkAddresses({ host, port }) {
  if (host !== '0.0.0.0' && host !== '::') return [];
  const interfaces = Object.values(networkInterfaces()).flat();
  return interfaces.filter(({ family, internal }) => family === 'IPv4' && !internal).map((entry) => `http://${entry.address}:${port}`);
}

/**
 * @param {{host: string, port: number}} listening
 * @param {string} token that the hub accepts
 * @param {boolean} isNamespaceToken whether the token is for one namespace, because the hub refuses the shared token
 */
export async function announce(listening, token, isNamespaceToken) {
  const address = localAddress(listening);
  const network = networkAddresses(listening);
  const origin = isNamespaceToken ? `of the namespace default; for another: ${commandLine('token', 'NAMESPACE')}` : `from ${DEV_VARS_NAME}`;
  const hub = address === `http://127.0.0.1:${DEFAULT_PORT}` ? '' : ` --hub ${address}`;
  // By default the agent uses the shared token of .dev.vars.
  const variable = isNamespaceToken ? `CLI_API_TOKEN=${token} ` : '';
  console.log(`
  ${bold('The hub is running.')} Ctrl-C stops it. Its data is stored in ${IS_PACKAGE ? DATA_DIR : '.wrangler/state'}.

  Address        ${address}${network.map((other) => `\n  On the network ${other}`).join('')}
  Access token   ${token}   ${dim(`(${origin})`)}

${await consoleLines(address, network, token)}
${agentLines(variable, hub)}

  List the sessions:
    curl -H 'Authorization: Bearer ${token}' ${address}/api/sessions
`);
}

/**
 * Prints a new link each time that the user presses Enter.
 * @param {{host: string, port: number}} listening
 * @param {string} token that the hub accepts
 */
export function printLinkOnEnter(listening, token) {
  if (!process.stdin.isTTY) return;
  const print = async () => console.log(`\n${await consoleLines(localAddress(listening), networkAddresses(listening), token)}\n`);
  createInterface({ input: process.stdin }).on('line', () => void print());
}

/**
 * The lines with a link that signs a browser in, and with its QR code for a phone if the hub listens on the network.
 * @param {string} address
 * @param {string[]} network the hub's addresses on the network
 * @param {string} token
 */
async function consoleLines(address, network, token) {
  const renewal = process.stdin.isTTY ? 'press Enter for a new one' : `for a new one: ${commandLine('devices', 'add')}`;
  let signIn;
  try {
    signIn = await createSignInCode(address, token);
  } catch (error) {
    return `  Open the console, and sign in with the access token: ${address}\n  There is no link with a code: ${error.message}`;
  }
  const { link, code, minutes } = signIn;
  return `  Open the console, signed in (the link works once, for ${minutes} minutes; ${renewal}):
    ${link}
${await onAPhone(network, code)}`;
}

/**
 * The lines for a phone: a QR code of the link, if the hub listens on the network.
 * @param {string[]} network the hub's addresses on the network
 * @param {string} code
 */
async function onAPhone([address], code) {
  if (address === undefined) return `\n  For a phone in the same network, which then scans a QR code: ${startLine('--host')}`;
  // In a log file, a QR code is useless and long.
  if (!process.stdout.isTTY) return '';
  // Imported dynamically, because this process may have installed the packages just now.
  const { qrCode } = await import('../../../packages/cli-kit/src/qr-code.mjs');
  return `\n  Or scan it with a phone in the same network:\n\n${qrCode(pairLink(address, code)).replace(/^/gm, '    ')}`;
}

/**
 * The lines about agents.
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
