/** The address of a hub, as a user types or pastes it. */

import { UsageError } from './errors.mjs';

/** The address at which a hub listens by default. */
export const DEFAULT_HUB = 'http://127.0.0.1:8787';

/** Matches the path of a page of the console. What precedes it is the prefix under which a proxy serves the hub. */
const PAGE = /\/+((archive|inbox|machines|new|pair|sessions|settings|sign-in)(\/.*)?)?$/;

/** A code in the fragment of a link. */
const CODE = /^#([A-Z0-9]{4}-?[A-Z0-9]{4})$/i;

/**
 * Returns the address of a hub in its normal form, without a trailing slash.
 * @param {string} text
 * @throws {UsageError}
 */
export function parseHubAddress(text) {
  const refuse = (problem) => {
    throw new UsageError(`The address of the hub ${problem}`);
  };
  if (!URL.canParse(text) || !text.includes('//')) refuse(`must be a URL such as https://hub.example.com, not "${text}".`);
  const { protocol, pathname, search, hash, origin, href } = new URL(text);
  if (!['http:', 'https:'].includes(protocol)) refuse(`must start with http:// or https://, not ${protocol}//.`);
  const prefix = pathname.replace(PAGE, '');
  if (prefix === pathname.replace(/\/+$/, '') && search === '' && hash === '') return href.replace(/\/+$/, '');
  const [, code] = CODE.exec(hash) ?? [];
  const given = code === undefined ? '' : ` --code ${code.toUpperCase()}`;
  return refuse(`must not name a page of the console. Use: --hub ${origin}${prefix}${given}`);
}
