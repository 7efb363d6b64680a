// What the command prints at the end of a deployment.

import { namespaceToken } from '../dev-vars.mjs';
import { commandLine } from '../invocation.mjs';
import { IS_PACKAGE } from '../paths.mjs';
import { bold, dim } from '../progress.mjs';
import { signInLink } from '../sign-in.mjs';
import { PRODUCTION } from './record.mjs';

/** The namespace of a token without a suffix. */
const DEFAULT_NAMESPACE = 'default';

const REQUEST_TIMEOUT_MS = 10_000;

/**
 * Returns a link that signs a browser in. The link contains a pairing code, which is valid once. If the hub has no pairing codes, the
 * link contains the token of the namespace.
 * @param {string} address
 * @param {string} secret
 * @returns {Promise<{url: string, note: string}>}
 */
async function createSignInLink(address, secret) {
  const token = namespaceToken(secret, DEFAULT_NAMESPACE);
  const response = await fetch(`${address}/api/devices/codes`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: '{}',
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  });
  const body = await response.json();
  // The hub has no pairing codes.
  if (response.status === 404) return { url: signInLink(address, token), note: 'it contains a token: do not share it' };
  if (!response.ok) throw new Error(body.error);
  return { url: body.url, note: `valid once, for ${Math.round((body.expiresAt - Date.now()) / 60_000)} minutes` };
}

/** The QR code of a link for a terminal. @param {string} url */
async function qrCodeOf(url) {
  const { qrCode } = await import('../../../packages/cli-kit/src/qr-code.mjs');
  return qrCode(url).replace(/^/gm, '    ');
}

/**
 * Returns the lines about signing in.
 * @param {string} address
 * @param {string | undefined} secret
 * @param {{isReady: boolean, isTerminal: boolean}} options
 */
async function describeSignIn(address, secret, { isReady, isTerminal }) {
  const tokenLines = ['  Open the address in a browser, and sign in with the access token.', ''];
  // In a CI, others may read the log, and a link in the log would sign them in.
  if (!secret || !isReady || process.env.CI) return tokenLines;
  try {
    const { url, note } = await createSignInLink(address, secret);
    const code = isTerminal ? [await qrCodeOf(url), ''] : [];
    return [`  Open the console, signed in ${dim(`(${note})`)}:`, `    ${url}`, '', ...code];
  } catch (error) {
    return [`  No sign-in link was created: ${error.cause?.message || error.message}`, ...tokenLines];
  }
}

/**
 * Prints the address of a hub, and what to do with it.
 * @param {object} deployed
 * @param {string} deployed.env
 * @param {string} deployed.address
 * @param {string} [deployed.secret] the access token of a new hub
 * @param {boolean} deployed.isReady whether the hub answers at its address
 * @param {boolean} deployed.isTerminal whether the output is a terminal
 */
export async function printClosing({ env, address, secret, isReady, isTerminal }) {
  const given = process.env.CLI_API_TOKEN;
  const isGenerated = secret !== undefined && secret !== given;
  const known = secret ?? (given?.includes(':') ? undefined : given);
  const environment = env === PRODUCTION ? '' : ` --env ${env}`;
  const lines = [
    '',
    `  ${bold('The hub is deployed:')} ${address}`,
    '',
    ...(isGenerated ? ['  Access token, shown only now (store it in a password manager):', `    ${secret}`, ''] : []),
    ...(await describeSignIn(address, known, { isReady, isTerminal })),
    '  Connect a coding agent:',
    `    ${IS_PACKAGE ? 'npx session-gateway-agent' : 'npm run agent --'} --agent claude --dir PATH --hub ${address}`,
    '',
    '  Update the hub, or change its settings in deployment.json: run this command again.',
    '  Go back to the previous version:',
    `    ${commandLine('wrangler', `rollback${environment}`)}`,
    '',
  ];
  console.log(lines.join('\n'));
}
