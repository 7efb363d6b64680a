/**
 * Escapes invisible characters, and characters that reorder text, such as `\u202E`. A permission request or a file name could
 * otherwise look like another request or file name.
 */

/** A part of a text: visible text, or the escapes of invisible characters. */
export interface TextRun {
  text: string;
  isEscape: boolean;
}

/** A letter or mark of a script in which joiners change the shape of letters: the blocks from Arabic to the last one of India. */
const JOINED = '(?=[\\p{L}\\p{M}])[\\u0600-\\u0dff]';
const EMOJI = '\\p{Extended_Pictographic}';

/** Characters that a text needs at their place: line breaks, tabs, variation selectors of emoji, and joiners. */
const NEEDED = [
  '[\\n\\r\\t]',
  `(?<=${EMOJI})[\\ufe0e\\ufe0f]`,
  '(?<=[0-9#*])\\ufe0f(?=\\u20e3)',
  `(?<=${EMOJI}[\\ufe0f\\p{Emoji_Modifier}]?)\\u200d(?=${EMOJI})`,
  `(?<=${JOINED})[\\u200c\\u200d](?=${JOINED})`,
].join('|');

/** Control, format and ignorable characters, separators, lone surrogates, and the blank pattern of Braille, except {@link NEEDED}. */
const INVISIBLE = new RegExp(`\\r(?!\\n|$)|(?!${NEEDED})[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}\\p{DI}\\u2800]`, 'gu');

/** Splits a text into visible runs and runs of escapes. Each invisible character becomes an escape such as `\u001B`. */
export function escapeInvisible(text: string): TextRun[] {
  const runs: TextRun[] = [];
  let position = 0;
  const add = (part: string, isEscape: boolean) => {
    const last = runs.at(-1);
    if (last?.isEscape === isEscape) last.text += part;
    else if (part !== '') runs.push({ text: part, isEscape });
  };
  for (const { 0: character, index } of text.matchAll(INVISIBLE)) {
    add(text.slice(position, index), false);
    add(escapeCharacter(character), true);
    position = index + character.length;
  }
  add(text.slice(position), false);
  return runs;
}

/** Escapes a text for attributes, which cannot highlight the escapes. */
export const escapeText = (text: string): string =>
  escapeInvisible(text)
    .map((run) => run.text)
    .join('');

function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const digits = code.toString(16).toUpperCase();
  return code > 0xffff ? `\\u{${digits}}` : `\\u${digits.padStart(4, '0')}`;
}
