// The codes that sign a browser in.

import { requestHub } from './hub-request.mjs';

/** A link that signs a browser in. @typedef {{link: string, code: string, minutes: number}} SignInCode */

/**
 * Creates a code, and the link that opens the console with it. The code is in the fragment, which browsers do not send.
 * @param {string} address at which the browser reaches the hub
 * @param {string} token of the namespace
 * @param {{name?: string, kind?: string}} [device]
 * @returns {Promise<SignInCode>}
 */
export async function createSignInCode(address, token, device = {}) {
  const { code, expiresAt } = await requestHub({ hub: address, token }, 'POST', '/api/devices/codes', device);
  return { link: pairLink(address, code), code, minutes: Math.max(1, Math.round((expiresAt - Date.now()) / 60_000)) };
}

/** @param {string} address of the hub @param {string} code */
export const pairLink = (address, code) => `${address}/pair#${code}`;
