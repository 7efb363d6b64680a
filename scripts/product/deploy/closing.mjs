// What the command prints at the end of a deployment.

import { namespaceToken } from '../../lib/dev-vars.mjs';
import { commandLine } from '../../lib/invocation.mjs';
import { IS_PACKAGE } from '../../lib/paths.mjs';
import { bold, dim } from '../../lib/progress.mjs';
import { createSignInCode } from '../hub/sign-in.mjs';
import { PRODUCTION } from './record.mjs';

/** The namespace to sign in to: the namespace of an access token that does not end with `:NAMESPACE`. */
const DEFAULT_NAMESPACE = 'default';

/** Returns the QR code of a link, as text for a terminal. @param {string} link */
async function qrCodeOf(link) {
  const { qrCode } = await import('../../../packages/cli-kit/src/qr-code.mjs');
  return qrCode(link).replace(/^/gm, '    ');
}

/**
 * Returns the lines about signing in: a link that signs in, or without an access token the advice to enter it.
 * @param {string} address
 * @param {string | undefined} accessToken
 * @param {{isReady: boolean, isTerminal: boolean}} options
 */
async function describeSignIn(address, accessToken, { isReady, isTerminal }) {
  const tokenLines = ['  Open the address in a browser, and sign in with the access token.', ''];
  // Other people may read the log of a CI, and a link in the log would sign them in.
  if (!accessToken || !isReady || process.env.CI) return tokenLines;
  try {
    const { link, minutes } = await createSignInCode(address, namespaceToken(accessToken, DEFAULT_NAMESPACE));
    const code = isTerminal ? [await qrCodeOf(link), ''] : [];
    return [`  Open the console, signed in ${dim(`(the link works once, for ${minutes} minutes)`)}:`, `    ${link}`, '', ...code];
  } catch (error) {
    return [`  No sign-in link was created: ${error.cause?.message || error.message}`, ...tokenLines];
  }
}

/**
 * Prints the address of a hub, and what to do with it.
 * @param {object} deployed
 * @param {string} deployed.env
 * @param {string} deployed.address
 * @param {string} [deployed.newAccessToken] the access token of a new hub
 * @param {boolean} deployed.isReady whether the hub answers at its address
 * @param {boolean} deployed.isTerminal whether the output is a terminal
 */
export async function printClosing({ env, address, newAccessToken, isReady, isTerminal }) {
  const environmentToken = process.env.CLI_API_TOKEN;
  const isGenerated = newAccessToken !== undefined && newAccessToken !== environmentToken;
  // The token of a namespace, `TOKEN:NAMESPACE`, cannot sign in to the default namespace.
  const mainToken = newAccessToken ?? (environmentToken?.includes(':') ? undefined : environmentToken);
  const environment = env === PRODUCTION ? '' : ` --env ${env}`;
  const lines = [
    '',
    `  ${bold('The hub is deployed:')} ${address}`,
    '',
    ...(isGenerated ? ['  Access token, shown only now (store it in a password manager):', `    ${newAccessToken}`, ''] : []),
    ...(await describeSignIn(address, mainToken, { isReady, isTerminal })),
    '  Connect a coding agent:',
    `    ${IS_PACKAGE ? 'npx session-gateway-agent' : 'npm run agent --'} --agent claude --dir PATH --hub ${address}`,
    '',
    '  To update the hub, or to apply changes of deployment.json, run this command again.',
    '  Go back to the previous version:',
    `    ${commandLine('wrangler', `rollback${environment}`)}`,
    '',
  ];
  console.log(lines.join('\n'));
}
