/**
 * The text of a terminal's output. Escape sequences are removed by the rules of ECMA-48, and text that the cursor returns to is
 * overwritten. Movements to other lines are ignored, so that no line is lost. Takes linear time.
 */

const [BEL, BS, TAB, CR, CAN, SUB, ESC, SPACE, DEL] = [0x07, 0x08, 0x09, 0x0d, 0x18, 0x1a, 0x1b, 0x20, 0x7f];
/** The C1 control characters, which are also written as ESC and the character 0x40 below. */
const [FIRST_C1, LAST_C1, C1_DISTANCE] = [0x80, 0x9f, 0x40];
/** Characters after ESC: control sequence introducer, operating system command, string terminator. */
const [CSI, OSC, ST] = [0x5b, 0x5d, 0x5c];
/** Characters after ESC that begin a control string: DCS, SOS, OSC, PM and APC. */
const STRING_INTRODUCERS = [0x50, 0x58, OSC, 0x5e, 0x5f];

/** Whether a line has more than text and tabs. */
const CONTROL = /[\u0000-\u0008\r\u000e-\u001f\u007f-\u009f]/;

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
  const line = new Line();
  for (let position = 0; position < source.length; ) {
    const code = source.charCodeAt(position);
    if (code === ESC || isBetween(code, FIRST_C1, LAST_C1)) {
      position = skipSequence(source, position, line);
      continue;
    }
    const character = String.fromCodePoint(source.codePointAt(position) ?? 0);
    if (code === CR) line.moveTo(0);
    else if (code === BS) line.moveTo(line.column - 1);
    else if (code === TAB) line.tab();
    else if (code >= SPACE && code !== DEL) line.write(character);
    position += character.length;
  }
  return line.text();
}

/** Returns the position after an escape sequence. An incomplete sequence is skipped up to the first character that is invalid in it. */
function skipSequence(source: string, start: number, line: Line): number {
  const isC1 = source.charCodeAt(start) !== ESC;
  const at = isC1 ? start : start + 1;
  const introducer = source.charCodeAt(at) - (isC1 ? C1_DISTANCE : 0);
  if (STRING_INTRODUCERS.includes(introducer)) return skipString(source, at + 1, introducer);
  if (introducer === CSI) {
    const intermediates = skipRange(source, at + 1, 0x30, 0x3f);
    const end = skipRange(source, intermediates, 0x20, 0x2f);
    if (!isBetween(source.charCodeAt(end), 0x40, 0x7e)) return end;
    if (intermediates === end) line.apply(source.charAt(end), source.slice(at + 1, end));
    return end + 1;
  }
  if (isC1) return at + 1;
  const end = skipRange(source, at, 0x20, 0x2f);
  return isBetween(source.charCodeAt(end), 0x30, 0x7e) ? end + 1 : end;
}

/** Returns the position after a control string. If its end is missing, only the introducer is skipped, and the rest is text. */
function skipString(source: string, start: number, introducer: number): number {
  for (let position = start; position < source.length; position += 1) {
    const code = source.charCodeAt(position);
    if (code === CAN || code === SUB || code === ST + C1_DISTANCE || (code === BEL && introducer === OSC)) return position + 1;
    if (code === ESC && source.charCodeAt(position + 1) === ST) return position + 2;
    if (code === ESC || isBetween(code, FIRST_C1, LAST_C1)) return start;
  }
  return start;
}

function skipRange(source: string, start: number, first: number, last: number): number {
  let position = start;
  while (isBetween(source.charCodeAt(position), first, last)) position += 1;
  return position;
}

const isBetween = (code: number, first: number, last: number) => code >= first && code <= last;

/** Characters without a column of their own. */
const COMBINING = /[\p{M}\p{Cf}]/u;
/** East Asian wide characters and emoji, which take two columns. */
const WIDE =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\u3001-\u303e\uff01-\uff60\uffe0-\uffe6]/u;
/** The first code point that can be combining or wide. */
const FIRST_SPECIAL = '\u00ad';
const TAB_WIDTH = 8;

/** A line of a terminal, with its cursor. */
class Line {
  /** A character of several columns is followed by empty cells. */
  readonly #cells: string[] = [];
  /** At most the number of cells. */
  #column = 0;

  get column(): number {
    return this.#column;
  }

  text(): string {
    return this.#cells.join('');
  }

  moveTo(column: number): void {
    this.#column = Math.max(0, Math.min(column, this.#cells.length));
  }

  write(character: string): void {
    const isSpecial = character >= FIRST_SPECIAL;
    if (isSpecial && this.#column > 0 && COMBINING.test(character)) {
      const at = this.#firstCell(this.#column - 1);
      this.#cells[at] += character;
      return;
    }
    this.#put(character);
    if (isSpecial && WIDE.test(character)) this.#put('');
  }

  /** Moves to the next tab stop. Writes a tab only at the end of the line. */
  tab(): void {
    const isAtEnd = this.#column === this.#cells.length;
    const stop = this.#column + TAB_WIDTH - (this.#column % TAB_WIDTH);
    if (isAtEnd) this.#put('\t');
    while (this.#cells.length < stop) this.#cells.push(isAtEnd ? '' : ' ');
    this.#column = stop;
  }

  /** Applies a control sequence, if it moves within the line or erases a part of the line. */
  apply(final: string, parameter: string): void {
    const count = Math.max(1, Number(parameter) || 1);
    if (final === 'G') this.moveTo(count - 1);
    else if (final === 'C') this.moveTo(this.#column + count);
    else if (final === 'D') this.moveTo(this.#column - count);
    else if (final === 'K' && parameter === '2') this.#cells.length = this.#column = 0;
    else if (final === 'K' && (parameter === '' || parameter === '0')) {
      this.#split(this.#column);
      this.#cells.length = this.#column;
    }
  }

  #put(character: string): void {
    this.#split(this.#column);
    this.#split(this.#column + 1);
    this.#cells[this.#column] = character;
    this.#column += 1;
  }

  /** Returns the cell with the character that covers a cell. */
  #firstCell(at: number): number {
    let first = at;
    while (first > 0 && this.#cells[first] === '') first -= 1;
    return first;
  }

  /** Replaces a character that begins before a cell and covers the cell by spaces. */
  #split(at: number): void {
    if (this.#cells[at] !== '') return;
    let end = at;
    while (this.#cells[end] === '') end += 1;
    this.#cells.fill(' ', this.#firstCell(at), end);
  }
}
