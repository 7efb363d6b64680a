/** Parses a line of simple commands of a POSIX shell. Refuses everything that a shell would expand, redirect or assign. */

/** Limit on a line, in characters. */
export const MAX_LINE_CHARS = 20_000;

/**
 * The parts of a word. No part matches control, format or unassigned characters, or separators other than the space: people cannot see
 * these characters. No unquoted part matches a pattern of file names, `=` at the start of a word (`=ls` is a path in zsh), or `~` where
 * shells expand it to a folder. In zsh, `^` and `~` before a name may exclude files (`EXTENDED_GLOB`). In fish, `\'` does not end a text.
 */
const PARTS = [
  { pattern: /'((?:[^'\p{C}\p{Z}]| )*)(?<!\\)'/uy },
  { pattern: /"((?:[^"\\$`!\p{C}\p{Z}]|\\["\\]| )*)"/uy, hasEscapes: true },
  { pattern: /((?:[\w./:,@+%\p{L}\p{M}\p{N}-]|(?<=[^\s;&|])=|(?<=[\w^~])[~^](?![\p{L}_]))+)/uy },
];

const OPERATOR = /&&|;|\|(?![|&])/y;

/**
 * Splits a line into its simple commands, which `&&`, `;` or `|` join.
 * @param {string} text
 * @returns {{commands: string[][], operators: string[]} | null} `commands`: the words of each command; `operators`: the operator after each
 *   command but the last; null for a line that this parser does not understand completely
 */
export function parseLine(text) {
  if (text.length > MAX_LINE_CHARS) return null;
  const commands = /** @type {string[][]} */ ([[]]);
  const operators = [];
  for (let at = skipSpaces(text, 0); at < text.length; at = skipSpaces(text, at)) {
    OPERATOR.lastIndex = at;
    const operator = OPERATOR.exec(text)?.[0];
    if (operator) {
      operators.push(operator);
      commands.push([]);
      at += operator.length;
      continue;
    }
    const found = readWord(text, at);
    if (!found) return null;
    commands.at(-1).push(found.word);
    at = found.end;
  }
  return commands.every((words) => words.length > 0) ? { commands, operators } : null;
}

function skipSpaces(text, from) {
  let at = from;
  while (text[at] === ' ') at += 1;
  return at;
}

function readWord(text, start) {
  let [word, end] = ['', start];
  while (end < text.length && !' ;&|'.includes(text[end])) {
    const part = readPart(text, end);
    if (!part) return null;
    word += part.value;
    end = part.end;
  }
  return end === start ? null : { word, end };
}

function readPart(text, at) {
  for (const { pattern, hasEscapes = false } of PARTS) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) return { value: hasEscapes ? found[1].replaceAll(/\\(["\\])/g, '$1') : found[1], end: pattern.lastIndex };
  }
  return null;
}
