// Splits SQL text into statements, without parsing the statements.

const NEWLINE = 0x0a;
const DASH = 0x2d;
const STAR = 0x2a;
const SLASH = 0x2f;
const SEMICOLON = 0x3b;

/** The end of each kind of quoted text, by its first byte: '…', "…", `…` and […]. */
const QUOTE_ENDS = new Map([
  [0x27, 0x27],
  [0x22, 0x22],
  [0x60, 0x60],
  [0x5b, 0x5d],
]);

const IS_WORD_BYTE = Array.from({ length: 256 }, (_, byte) => byte >= 0x80 || /[A-Za-z0-9_$]/.test(String.fromCharCode(byte)));

const TRIGGER = /^CREATE (?:(?:TEMP|TEMPORARY) )?TRIGGER\b/;

/**
 * @typedef {object} Statement
 * @property {Buffer} bytes the statement with its semicolon, and the white space and comments before it
 * @property {string} words the first three words in upper case, such as `CREATE TABLE IF`. Quoted text is no word
 */

/** Finds the ends of statements by the rules of sqlite3_complete(). A statement may begin and end in any chunk. */
export class StatementScanner {
  /** The chunks of the statement that has not ended. */
  #chunks = [];
  #words = [];
  #word = '';
  /** The last two words or semicolons, in upper case. */
  #tokens = ['', ''];
  /** The byte that ends the current quoted text or comment; undefined outside of quoted texts and comments. */
  #endOfQuote;
  #isInBlockComment = false;
  #previous = 0;

  /** Whether a statement has begun and not ended. */
  get isInStatement() {
    return this.#words.length > 0 || this.#word !== '';
  }

  /** The bytes after the last statement. */
  get rest() {
    return Buffer.concat(this.#chunks);
  }

  /**
   * @param {Buffer} chunk the next bytes of the text
   * @returns {Generator<Statement>} the statements that end in the chunk
   */
  *push(chunk) {
    let start = 0;
    for (let i = 0; i < chunk.length; i += 1) {
      if (this.#endOfQuote !== undefined) {
        // `indexOf` is fast, and most bytes of a file are in quoted text. A doubled quote counts as an end and a new beginning.
        i = chunk.indexOf(this.#endOfQuote, i);
        if (i === -1) break;
        this.#endOfQuote = undefined;
        this.#previous = 0;
        continue;
      }
      const byte = chunk[i];
      const wasInBlockComment = this.#isInBlockComment;
      if (wasInBlockComment) this.#isInBlockComment = !(byte === SLASH && this.#previous === STAR);
      else if (this.#endsStatement(byte)) {
        yield { bytes: Buffer.concat([...this.#chunks, chunk.subarray(start, i + 1)]), words: this.#words.join(' ') };
        start = i + 1;
        this.#chunks = [];
        this.#words = [];
        this.#tokens = ['', ''];
      }
      this.#previous = this.#isInBlockComment === wasInBlockComment ? byte : 0;
    }
    if (start < chunk.length) this.#chunks.push(chunk.subarray(start));
  }

  /** Reads a byte outside of quoted text and comments. Returns whether the byte ends the statement. */
  #endsStatement(byte) {
    if (IS_WORD_BYTE[byte]) {
      this.#word += String.fromCharCode(byte);
      return false;
    }
    if (this.#word !== '') this.#addWord();
    if (byte === SEMICOLON) return this.#endsAtSemicolon();
    if (byte === DASH && this.#previous === DASH) this.#endOfQuote = NEWLINE;
    else if (byte === STAR && this.#previous === SLASH) this.#isInBlockComment = true;
    else this.#endOfQuote = QUOTE_ENDS.get(byte);
    return false;
  }

  #addWord() {
    const word = this.#word.toUpperCase();
    if (this.#words.length < 3) this.#words.push(word);
    this.#tokens = [this.#tokens[1], word];
    this.#word = '';
  }

  /** Reads a semicolon. Returns whether it ends the statement: a trigger contains semicolons, and only `; END;` ends it. */
  #endsAtSemicolon() {
    const [beforeLast, last] = this.#tokens;
    this.#tokens = [last, ';'];
    return !TRIGGER.test(this.#words.join(' ')) || (beforeLast === ';' && last === 'END');
  }
}

/** @param {Statement} statement */
export const createsTrigger = ({ words }) => TRIGGER.test(words);
