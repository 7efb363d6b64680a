/** The syntax of `.dev.vars`, the file with the secrets of the local hub. */

/** A variable and its value, in the syntax of the npm package dotenv, which wrangler uses for `.dev.vars`. */
const VARIABLE =
  /^\s*(?:export\s+)?([\w.-]+)(?:\s*=\s*?|:\s+?)(\s*'(?:\\'|[^'])*'|\s*"(?:\\"|[^"])*"|\s*`(?:\\`|[^`])*`|[^#\r\n]+)?\s*(?:#.*)?$/gm;

/**
 * Parses `.dev.vars` as wrangler does. The last definition of a name applies. Quotes are removed. A quoted value may contain blanks,
 * `#` and line breaks. `\n` in double quotes is a line break.
 * @param {string} text
 * @returns {Record<string, string>}
 */
export function parseDevVars(text) {
  const definitions = [...text.replace(/\r\n?/g, '\n').matchAll(VARIABLE)];
  return Object.fromEntries(definitions.map(([, name, written = '']) => [name, unquote(written.trim())]));
}

/** @param {string} written */
function unquote(written) {
  const value = written.replace(/^(['"`])([^]*)\1$/gm, '$2');
  return written.startsWith('"') ? value.replaceAll('\\n', '\n').replaceAll('\\r', '\r') : value;
}
