/** The codes that add a device. A code is shown as `ABCD-EFGH`. */

import { pagePath } from './hub-address.ts';

/** Letters and digits that look different from each other. */
const CODE = /^[A-HJKMNP-TV-Z2-9]{8}$/;

/** The path of the page that takes a code in its fragment. */
export const PAIR_PATH = '/pair';

/** The path of the page that signs this browser in to one more namespace. It also takes a code in its fragment. */
export const SIGN_IN_PATH = '/sign-in';

/** Returns the code in the fragment of the page's address, such as `https://hub.example.com/pair#ABCD-EFGH`, or null. */
export const codeOfPage = (): string | null => ([PAIR_PATH, SIGN_IN_PATH].includes(pagePath()) ? parseCode(location.hash.slice(1)) : null);

const CODE_HELP = 'A code has 8 letters and digits, such as ABCD-EFGH.';

/** Returns the code as it is shown, or null if the text is no code. Case, spaces and hyphens do not matter. */
export function parseCode(text: string): string | null {
  const code = text.toUpperCase().replace(/[\s\p{Pd}]/gu, '');
  return CODE.test(code) ? `${code.slice(0, 4)}-${code.slice(4)}` : null;
}

/** Whether a code is shown by a new device, and entered on a device with access. All other codes go the opposite way. */
export const isShownByNewDevice = (code: string): boolean => code.startsWith('R');

/** Whether an address of the hub reaches only the computer itself, such as `http://127.0.0.1:8787`. */
export const isLoopback = (url: string): boolean => /^(localhost|127\.[\d.]+|\[::1\])$/.test(new URL(url).hostname);

/**
 * Returns the code of a typed, pasted or scanned text, which may be a link.
 * @throws {Error} whose message is shown to the user, if the text has no code or is the link of another hub
 */
export function readCode(text: string, origin: string): string {
  const trimmed = text.trim();
  const link = URL.canParse(trimmed) ? new URL(trimmed) : null;
  if (link !== null && link.origin !== 'null' && link.origin !== origin) {
    throw new Error(`This is a link of another hub (${link.host}). Open it there.`);
  }
  const code = parseCode(link === null ? text : link.hash.slice(1));
  if (code === null) throw new Error(CODE_HELP);
  return code;
}
