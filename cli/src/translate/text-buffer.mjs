/**
 * Joins the chunks of a text into messages.
 *
 * A message ends when the agent does something else. A long text is stored in pieces, each a message of its own, so that a crash loses
 * little of the text. Each piece must be Markdown that renders alone, so a text is split:
 * - where a paragraph outside of code begins; or
 * - if there is no such paragraph, where a line begins. An open code block is then closed in the first piece and opened again in the
 *   second piece. `continuedBy` of the first piece tells clients how to join the pieces.
 */

import { message, text as textContent, thinking as thinkingContent } from './records.mjs';

/** A text is split before its last paragraph when the part before this paragraph has this length, or the text has this age. */
const PIECE_CHARS = 4000;
const MAX_PIECE_AGE_MS = 5000;
/** Factor on both limits for a split where only a line begins. */
const LINE_FACTOR = 2;
/** A text without a new chunk for this time is stored, because agents do not mark the end of a text outside of a turn. */
const IDLE_TIMEOUT_MS = 10_000;
/** A text without lines is split anywhere at this length. */
const MAX_CHARS = 200_000;

const FENCE = /^ {0,3}(`{3,}(?!.*`)|~{3,})/;
/** A line that may continue the block before the blank line: indented, a list item, a quote or a table row. */
const CONTINUATION = /^(\s|[-*+>|]|\d+[.)])/;

/**
 * @typedef {'text' | 'thinking'} TextKind
 * @typedef {{id: string, kind: TextKind, text: string}} Delta
 */

export class TextBuffer {
  /** @type {{id: string, kind: TextKind, messageId?: string, text: string, unreported: string, startedAt: number, changedAt: number,
   *   line: string, fence: string, fenceLine: string, hasCode: boolean, isAfterBlank: boolean, paragraphAt: number,
   *   lineSplit: {at: number, fences: {end?: string, start?: string}} | null} | null} */
  #piece = null;

  /** @param {{newId: () => string, now: () => number}} options */
  constructor({ newId, now }) {
    this.newId = newId;
    this.now = now;
  }

  /** Whether a text is not stored yet. */
  get isPending() {
    return this.#piece !== null;
  }

  /**
   * Appends a chunk.
   * @param {TextKind} kind
   * @param {string} chunk
   * @param {string} [messageId] the agent's id of the message; a chunk without an id continues the current message
   * @returns {import('./records.mjs').MessageRecord[]} the messages that are complete
   */
  append(kind, chunk, messageId) {
    const isOtherMessage = this.#piece && (this.#piece.kind !== kind || (messageId !== undefined && this.#piece.messageId !== messageId));
    const records = isOtherMessage ? this.flush() : [];
    if (!this.#piece) {
      if (chunk.trim() === '') return records;
      this.#start(kind, messageId, kind === 'text' ? chunk.replace(/^\s*\n/, '') : chunk.trimStart());
    } else {
      this.#add(chunk);
    }
    return [...records, ...this.#split()];
  }

  /** Ends the current message. */
  flush() {
    const piece = this.#piece;
    this.#piece = null;
    return piece ? [toRecord(piece, piece.text)] : [];
  }

  /** Ends the current message if nothing was added to it for `IDLE_TIMEOUT_MS`. */
  flushIdle() {
    return this.#piece && this.now() - this.#piece.changedAt >= IDLE_TIMEOUT_MS ? this.flush() : [];
  }

  /** Returns the text that was appended to the current message since the last call. Blank text waits until other text follows. */
  takeDeltas() {
    const piece = this.#piece;
    if (!piece || piece.unreported.trim() === '') return [];
    const { id, kind, unreported } = piece;
    const end = /[\uD800-\uDBFF]$/.test(unreported) ? unreported.length - 1 : unreported.length;
    piece.unreported = unreported.slice(end);
    return [{ id, kind, text: unreported.slice(0, end).toWellFormed() }];
  }

  #start(kind, messageId, chunk) {
    const scan = { line: '', fence: '', fenceLine: '', hasCode: false, isAfterBlank: false, paragraphAt: 0, lineSplit: null };
    this.#piece = { id: this.newId(), kind, messageId, text: '', unreported: '', startedAt: this.now(), changedAt: this.now(), ...scan };
    this.#add(chunk);
  }

  /** Adds a chunk to the piece. Scans only the chunk: scanning the whole text each time would take quadratic time. */
  #add(chunk) {
    const piece = this.#piece;
    let offset = piece.text.length;
    const lines = chunk.split('\n');
    piece.text += chunk;
    piece.unreported += chunk;
    piece.changedAt = this.now();
    lines.forEach((part, index) => {
      piece.line += part;
      offset += part.length + 1;
      if (index === lines.length - 1) return;
      scanLine(piece, offset - piece.line.length - 1);
      piece.line = '';
    });
  }

  #split() {
    const { kind, text, startedAt, paragraphAt, lineSplit } = this.#piece;
    if (text.length >= MAX_CHARS) return this.flush();
    const age = this.now() - startedAt;
    const isDue = (at, factor) => at > 0 && (at >= factor * PIECE_CHARS || age >= factor * MAX_PIECE_AGE_MS);
    if (isDue(paragraphAt, 1)) return this.#splitAt(paragraphAt, kind === 'text' ? null : {});
    if (lineSplit && isDue(lineSplit.at, LINE_FACTOR)) return this.#splitAt(lineSplit.at, kind === 'text' ? lineSplit.fences : {});
    return [];
  }

  /**
   * Splits the piece. `fences`: the text that is added so that both pieces render alone, and that clients remove when they join the pieces;
   * null for separate paragraphs, which clients need not join.
   */
  #splitAt(at, fences) {
    const first = this.#piece;
    this.#start(first.kind, first.messageId, (fences?.start ?? '') + first.text.slice(at));
    const continuedBy = fences ? { localId: this.#piece.id, ...fences } : undefined;
    return [toRecord(first, first.text.slice(0, at) + (fences?.end ?? ''), continuedBy)];
  }
}

/** Returns the fence that closes the code block of a piece, and the fence that opens the block again. */
function fencesOf({ fence, fenceLine }) {
  const indentation = fenceLine.slice(0, fenceLine.indexOf(fence));
  return { end: indentation + fence, start: `${fenceLine}\n` };
}

/** Updates the state of a piece after a complete line that starts at `offset`. */
function scanLine(piece, offset) {
  const { line } = piece;
  const isBlank = line.trim() === '';
  const [, fence = ''] = FENCE.exec(line) ?? [];
  if (piece.fence === '') {
    if (!isBlank && piece.isAfterBlank && !CONTINUATION.test(line)) piece.paragraphAt = offset;
    if (!isBlank && offset > 0) piece.lineSplit = { at: offset, fences: {} };
    if (fence !== '') Object.assign(piece, { fence, fenceLine: line, hasCode: false });
  } else if (fence.startsWith(piece.fence) && line.trim() === fence) {
    piece.fence = '';
  } else if (!isBlank) {
    // Neither piece may end up with an empty code block.
    if (piece.hasCode) piece.lineSplit = { at: offset, fences: fencesOf(piece) };
    piece.hasCode = true;
  }
  piece.isAfterBlank = isBlank;
}

/** Converts a piece to a record. The text of a piece that is continued keeps the space at its end. */
function toRecord({ id, kind }, value, continuedBy) {
  const content = kind === 'text' ? textContent : thinkingContent;
  return message(id, content(continuedBy ? value : value.trimEnd(), continuedBy));
}
