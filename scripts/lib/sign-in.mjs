// The link that signs a browser in.

/**
 * The address that opens the console signed in. The token is in the fragment, which browsers do not send.
 * @param {string} address of the hub
 * @param {string} token
 * @param {string} [path] of a view
 */
export function signInLink(address, token, path = '/') {
  return `${address}${path}#token=${encodeURIComponent(token)}`;
}
