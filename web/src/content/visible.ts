/** Characters that show nothing, or make others show elsewhere than they stand. */

/** A run of characters of a text; one that is a mark stands for a character that would not be seen. */
export interface VisibleRun {
  text: string;
  isMark: boolean;
}

/**
 * Controls, those of the direction of writing among them, what no font draws, and halves of characters. Lines and tabs are
 * seen by what they do; the one variation selector is a part of many pictures of faces and signs.
 */
const UNSEEN = /\r(?!\n|$)|(?![\n\r\t\ufe0f])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** A text with a mark for each character that would not be seen, such as `\u001B` or `\u202E`. */
export function visible(text: string): VisibleRun[] {
  const runs: VisibleRun[] = [];
  let done = 0;
  const add = (words: string, isMark: boolean) => {
    const last = runs.at(-1);
    if (last?.isMark === isMark) last.text += words;
    else if (words !== '') runs.push({ text: words, isMark });
  };
  for (const { 0: character, index } of text.matchAll(UNSEEN)) {
    add(text.slice(done, index), false);
    add(markOf(character), true);
    done = index + character.length;
  }
  add(text.slice(done), false);
  return runs;
}

/** Its number, as many languages write it: a font may have no picture of a control. */
function markOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const digits = code.toString(16).toUpperCase();
  return code > 0xffff ? `\\u{${digits}}` : `\\u${digits.padStart(4, '0')}`;
}
