/**
 * The text of a terminal's output. Escape sequences are removed by the rules of ECMA-48, and text that the cursor returns to is
 * overwritten. Movements to other lines are ignored, so that no line is lost. Takes linear time.
 */

/** Whether a line has more than text and tabs. */
const CONTROL = /[\u0000-\u0008\r\u000e-\u001f\u007f-\u009f]/;

/**
 * An escape sequence. Each introducer is ESC with a character, or one character of C1. A part without a valid end is skipped up to the
 * first character that is invalid in it; of a control string without an end, only the introducer is skipped, and the rest is text. No
 * character fits two parts that follow each other, so the search takes linear time.
 */
const SEQUENCE = new RegExp(
  [
    // A control sequence with its parameter and its final character, such as `ESC [ 31 m`.
    '(?:\\x1b\\[|\\x9b)(?<parameter>[0-?]*)(?:[ -/]+[@-~]?|(?<final>[@-~]?))',
    // An operating system command, such as a link or a title, which may also end with BEL.
    '(?:\\x1b\\]|\\x9d)(?:[^\\x07\\x18\\x1a\\x1b\\x80-\\x9f]*(?:[\\x07\\x18\\x1a\\x9c]|\\x1b\\\\))?',
    // Other control strings: DCS, SOS, PM and APC.
    '(?:\\x1b[PX^_]|[\\x90\\x98\\x9e\\x9f])(?:[^\\x18\\x1a\\x1b\\x80-\\x9f]*(?:[\\x18\\x1a\\x9c]|\\x1b\\\\))?',
    '\\x1b[ -/]*[0-~]?',
    '[\\x80-\\x9f]',
  ].join('|'),
  'y',
);

/** East Asian wide characters and emoji, which take two columns. */
const WIDE = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}\p{Emoji_Presentation}\u3001-\u303e\uff01-\uff60\uffe0-\uffe6]/u;
const TAB_WIDTH = 8;

/** Removes escape sequences, overwrites text as a terminal does, and removes whitespace at the end. */
export function terminalText(output: string): string {
  return output
    .split(/\r?[\n\v\f]/)
    .map((line) => (CONTROL.test(line) ? cleanLine(line) : line))
    .join('\n')
    .trimEnd();
}

/** Cleans a line. A control string does not extend beyond its line: without its end, all following lines would be lost. */
function cleanLine(source: string): string {
  /** The characters of the columns. A character of several columns is followed by empty cells. */
  const cells: string[] = [];
  let column = 0;
  const moveTo = (target: number) => {
    column = Math.max(0, Math.min(target, cells.length));
  };
  const firstCell = (at: number): number => (at > 0 && cells[at] === '' ? firstCell(at - 1) : at);
  /** Replaces a character that covers the columns on both sides of a border by spaces. */
  const split = (border: number) => {
    let end = border;
    while (cells[end] === '') end += 1;
    if (end > border) cells.fill(' ', firstCell(border), end);
  };
  const put = (character: string) => {
    split(column);
    split(column + 1);
    cells[column] = character;
    column += 1;
  };
  const erase = (start: number) => {
    split(start);
    cells.length = start;
    column = start;
  };
  for (let position = 0; position < source.length; ) {
    SEQUENCE.lastIndex = position;
    const sequence = SEQUENCE.exec(source);
    const character = sequence?.[0] ?? String.fromCodePoint(source.codePointAt(position) ?? 0);
    position += character.length;
    if (sequence) {
      const { parameter = '', final } = sequence.groups ?? {};
      const count = Number(parameter) || 1;
      if (final === 'G') moveTo(count - 1);
      else if (final === 'C') moveTo(column + count);
      else if (final === 'D') moveTo(column - count);
      else if (final === 'K' && parameter === '2') erase(0);
      else if (final === 'K' && !Number(parameter)) erase(column);
    } else if (character === '\r') moveTo(0);
    else if (character === '\b') moveTo(column - 1);
    else if (character === '\t') {
      const stop = column + TAB_WIDTH - (column % TAB_WIDTH);
      const filler = column === cells.length ? '' : ' ';
      if (filler === '') put(character);
      while (cells.length < stop) cells.push(filler);
      column = stop;
    } else if (column > 0 && /[\p{M}\p{Cf}]/u.test(character)) cells[firstCell(column - 1)] += character;
    else if (!CONTROL.test(character)) {
      put(character);
      if (WIDE.test(character)) put('');
    }
  }
  return cells.join('');
}
