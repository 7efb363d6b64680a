/** The address of a hub, as a user types or pastes it. */

/** Matches the path of a page of the console. What precedes it is the prefix under which a proxy serves the hub. */
const PAGE = /\/+((archive|inbox|machines|new|pair|sessions|settings|sign-in)(\/.*)?)?$/;

/** A code in the fragment of a link. */
const CODE = /^#([A-Z0-9]{4}-?[A-Z0-9]{4})$/i;

/**
 * Returns what is wrong with the address of a hub.
 * @param {string} text
 * @returns {string | null} a sentence that continues "The address of the hub"; null if the address can be used
 */
export function describeAddressProblem(text) {
  if (!URL.canParse(text) || !text.includes('//')) return `must be a URL such as https://hub.example.com, not "${text}".`;
  const { protocol, pathname, search, hash, origin } = new URL(text);
  if (!['http:', 'https:'].includes(protocol)) return `must start with http:// or https://, not ${protocol}//.`;
  const prefix = pathname.replace(PAGE, '');
  if (prefix === pathname.replace(/\/+$/, '') && search === '' && hash === '') return null;
  const [, code] = CODE.exec(hash) ?? [];
  return `must not name a page of the console. Use: --hub ${origin}${prefix}${code === undefined ? '' : ` --code ${code.toUpperCase()}`}`;
}
