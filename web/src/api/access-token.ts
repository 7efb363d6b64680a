/** The syntax of access tokens, sign-in links and namespaces. */

/** The prefix of the tokens of devices, which do not name their namespace. */
const DEVICE_TOKEN_PREFIX = 'sgd_';

/** Whether a token is the token of a device, and not an access token of a namespace. */
export const isDeviceToken = (token: string): boolean => token.startsWith(DEVICE_TOKEN_PREFIX);

/**
 * Returns the access token of a sign-in link such as `https://hub.example.com/#token=…`, or null.
 * @param hash the URL fragment, with `#`
 */
export function tokenFromFragment(hash: string): string | null {
  return new URLSearchParams(hash.replace(/^#/, '')).get('token') || null;
}

/** Returns the namespace that an access token names. It does not check the token. */
export function namespaceOf(accessToken: string): string {
  return /:([^:]*)$/.exec(accessToken)?.[1] || 'default';
}

/** Checks the syntax of a namespace. */
export function isValidNamespace(name: string): boolean {
  return /^[\w.-]{1,64}$/.test(name);
}
