/** Parses simple commands of a POSIX shell: one program and its arguments. Refuses everything that a shell would expand or run. */

/**
 * A word of a command. `isLiteral`: the word has neither quotes nor a pattern, so that the shell passes on its text unchanged.
 * @typedef {{text: string, isLiteral: boolean}} Word
 */

/** Limit on a command, in characters. */
const MAX_COMMAND_CHARS = 20_000;

/**
 * The parts of a word. No part matches control, format or unassigned characters, or separators other than the space. People cannot see
 * such characters, and shells handle them in different ways.
 */
const PARTS = [
  { pattern: /'((?:[^'\p{C}\p{Z}]| )*)'/uy, isLiteral: false },
  { pattern: /"((?:[^"\\$`!\p{C}\p{Z}]|\\["\\]| )*)"/uy, isLiteral: false, hasEscapes: true },
  { pattern: /([\w./:,@+=%^~\p{L}\p{M}\p{N}-]+)/uy, isLiteral: true },
  { pattern: /([*?[\]]+)/uy, isLiteral: false, isGlob: true },
];

/**
 * Splits a simple command into its words.
 * @param {string} text
 * @returns {Word[] | null} null for an empty command, and for a command that this parser does not understand completely. Examples
 *   are an operator, an expansion, a redirection, a backslash outside of quotes, and a line break
 */
export function parseSimpleCommand(text) {
  if (text.length > MAX_COMMAND_CHARS) return null;
  const words = [];
  let at = skipSpaces(text, 0);
  while (at < text.length) {
    const found = readWord(text, at);
    if (!found) return null;
    words.push(found.word);
    at = skipSpaces(text, found.end);
  }
  return words.length > 0 ? words : null;
}

function skipSpaces(text, from) {
  let at = from;
  while (text[at] === ' ') at += 1;
  return at;
}

function readWord(text, start) {
  let [value, isLiteral, end] = ['', true, start];
  while (end < text.length && text[end] !== ' ') {
    const part = readPart(text, end);
    if (!part) return null;
    value += part.value;
    isLiteral &&= part.isLiteral;
    // A pattern at the start of a word may expand to a file whose name is an option.
    if (part.isGlob && (value === part.value || value.startsWith('-'))) return null;
    end = part.end;
  }
  return { word: { text: value, isLiteral }, end };
}

function readPart(text, at) {
  for (const { pattern, isLiteral, hasEscapes = false, isGlob = false } of PARTS) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) continue;
    const value = hasEscapes ? found[1].replaceAll(/\\(["\\])/g, '$1') : found[1];
    return { value, isLiteral, isGlob, end: pattern.lastIndex };
  }
  return null;
}
