/**
 * Joins the chunks of a text into messages.
 *
 * A message ends when the agent does something else. A long text is stored in pieces, so that a crash loses little of it.
 * Each piece must be Markdown that renders alone: the text is split only where a paragraph outside of code begins.
 */

import { message, text as textContent, thinking as thinkingContent } from './records.mjs';

/** A text is split where its last paragraph begins: once this many characters precede it, or once the text is this old. */
const PIECE_CHARS = 4000;
const PIECE_MS = 5000;
/** A text without a new chunk for this time is stored: text that the agent sends outside of a turn has no marked end. */
const IDLE_MS = 10_000;
/** A text without paragraphs is split anywhere at this length. */
const MAX_CHARS = 200_000;

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
/** A line that may continue the block before the blank line: indented, a list item, a quote or a table row. */
const CONTINUATION = /^(\s|[-*+>|]|\d+[.)])/;

/**
 * @typedef {'text' | 'thinking'} TextKind
 * @typedef {{id: string, kind: TextKind, text: string}} Delta
 */

export class TextBuffer {
  /** @type {{id: string, kind: TextKind, messageId?: string, text: string, unreported: string, startedAt: number, changedAt: number,
   *   line: string, fence: string, isAfterBlank: boolean, splitAt: number} | null} */
  #piece = null;

  /** @param {{newId: () => string, now: () => number}} options */
  constructor({ newId, now }) {
    this.newId = newId;
    this.now = now;
  }

  /**
   * Appends a chunk.
   * @param {TextKind} kind
   * @param {string} chunk
   * @param {string} [messageId] the agent's id of the message; a chunk without one continues the current message
   * @returns {import('./records.mjs').MessageRecord[]} the messages that are complete
   */
  append(kind, chunk, messageId) {
    const isOther = this.#piece && (this.#piece.kind !== kind || (messageId !== undefined && this.#piece.messageId !== messageId));
    const records = isOther ? this.flush() : [];
    if (!this.#piece) {
      if (chunk.trim() === '') return records;
      this.#start(kind, messageId, chunk.replace(/^\s*\n/, ''));
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

  /** Ends the current message if nothing was added to it for a while. */
  flushIdle() {
    return this.#piece && this.now() - this.#piece.changedAt >= IDLE_MS ? this.flush() : [];
  }

  /** Returns what was appended to the current message since the last call. Blank text is held back until other text follows. */
  takeDeltas() {
    const piece = this.#piece;
    if (!piece || piece.unreported.trim() === '') return [];
    const { id, kind, unreported } = piece;
    const end = /[\uD800-\uDBFF]$/.test(unreported) ? unreported.length - 1 : unreported.length;
    piece.unreported = unreported.slice(end);
    return [{ id, kind, text: unreported.slice(0, end).toWellFormed() }];
  }

  #start(kind, messageId, chunk) {
    const scan = { line: '', fence: '', isAfterBlank: false, splitAt: 0 };
    this.#piece = { id: this.newId(), kind, messageId, text: '', unreported: '', startedAt: this.now(), changedAt: this.now(), ...scan };
    this.#add(chunk);
  }

  /** Only the chunk is scanned: reading the whole text for each chunk would take quadratic time. */
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
    const piece = this.#piece;
    if (piece.text.length >= MAX_CHARS) return this.flush();
    const isDue = piece.splitAt >= PIECE_CHARS || this.now() - piece.startedAt >= PIECE_MS;
    if (!isDue || piece.splitAt === 0) return [];
    const rest = piece.text.slice(piece.splitAt);
    this.#piece = null;
    this.#start(piece.kind, piece.messageId, rest);
    return [toRecord(piece, piece.text.slice(0, piece.splitAt))];
  }
}

/** Updates the state of a piece after a complete line that starts at `offset`. */
function scanLine(piece, offset) {
  const { line } = piece;
  const [, fence = ''] = FENCE.exec(line) ?? [];
  if (piece.fence === '' && line.trim() !== '' && piece.isAfterBlank && !CONTINUATION.test(line)) piece.splitAt = offset;
  if (piece.fence === '') piece.fence = fence;
  else if (fence.startsWith(piece.fence) && line.trim() === fence) piece.fence = '';
  piece.isAfterBlank = line.trim() === '';
}

const toRecord = ({ id, kind }, value) => message(id, kind === 'text' ? textContent(value.trimEnd()) : thinkingContent(value.trim()));
