/** The output of a tool call. Each result has only the new output, because clients append the results of a call. */

import { asList, isObject, isText, limitSize } from './values.mjs';
import { imageBlock } from './records.mjs';

/** Limits on the output of a call, in characters. The middle of a longer output is left out, because errors are at the end. */
const MAX_START_CHARS = 1_000_000;
const MAX_END_CHARS = 1_000_000;
/** The number of characters at the end of the known output that are searched in a new output, to find the new part. */
const OVERLAP_CHARS = 200;
/** Shorter texts are not searched, because they could be found by chance. */
const MIN_OVERLAP_CHARS = 8;

/** The fields of `rawOutput` that hold its text, in order of preference. */
const TEXT_FIELDS = ['output', 'text', 'content', 'message', 'error'];

/** Converts a content block of the protocol to text; empty for an image that can be shown. */
export function blockText(block) {
  switch (block?.type) {
    case 'text':
      return typeof block.text === 'string' ? block.text : '';
    case 'resource_link':
      return isText(block.uri) ? `[${isText(block.name) ? block.name : block.uri}](${block.uri})` : '';
    case 'resource':
      return isText(block.resource?.text)
        ? block.resource.text
        : isText(block.resource?.uri)
          ? `[${block.resource.uri}](${block.resource.uri})`
          : '';
    case 'image':
      return imageBlock(block) ? '' : '[image that cannot be shown]';
    case 'audio':
      return `[audio, ${block.mimeType ?? 'of an unknown type'}]`;
    default:
      return '';
  }
}

const blocksOf = (content) => asList(content).flatMap((item) => (item?.type === 'content' ? [item.content] : []));

/** Returns the text of a call's `content`. */
export const contentText = (content) => blocksOf(content).map(blockText).filter(Boolean).join('\n');

/** Returns the text of a completed call: the raw output if it is text, or else `content`, or else the raw output as JSON. */
function finalText({ rawOutput, content }) {
  if (isText(rawOutput)) return rawOutput;
  if (isObject(rawOutput) && typeof rawOutput.text === 'string') return rawOutput.text;
  const text = contentText(content);
  if (text !== '' || typeof rawOutput !== 'object' || rawOutput === null) return text;
  const hasText = TEXT_FIELDS.some((name) => Object.hasOwn(rawOutput, name));
  if (hasText) return TEXT_FIELDS.map((name) => rawOutput[name]).find(isText) ?? '';
  if (asList(content).length > 0 || Object.keys(rawOutput).length === 0) return '';
  return JSON.stringify(limitSize(rawOutput, MAX_START_CHARS + MAX_END_CHARS), null, 2);
}

/** Returns the exit code of a completed command, if the agent reports it. */
export function exitCode({ _meta, rawOutput }) {
  const code = _meta?.terminal_exit?.exit_code ?? rawOutput?.exitCode ?? rawOutput?.metadata?.exit;
  return typeof code === 'number' ? code : undefined;
}

export class ToolOutput {
  /** The start of the output: the sent text, then the unsent text. */
  #sent = '';
  #unsent = '';
  #isStartComplete = false;
  /** The output after the start, without its first `#droppedChars` characters. Sent when the call ends. */
  #end = '';
  #droppedChars = 0;
  #isEndSent = false;
  #images = [];
  #seenImages = new Set();
  #isStream = false;

  get hasUnsent() {
    return this.#unsent !== '' || this.#images.length > 0;
  }

  /**
   * Reads the output in an update of a call: a new piece of terminal output, or `content`, which replaces the previous output.
   * @param {object} update
   * @param {boolean} isFinal
   */
  read(update, isFinal) {
    const piece = update._meta?.terminal_output_delta?.data ?? update._meta?.terminal_output?.data;
    if (isText(piece)) {
      this.#isStream = true;
      this.#append(piece);
    }
    for (const block of blocksOf(update.content)) this.#addImage(block);
    if (this.#isStream) return;
    const text = isFinal ? finalText(update) : contentText(update.content);
    const start = this.#sent + this.#unsent;
    if (this.#isStartComplete && text.startsWith(start)) this.#replaceEnd(text.slice(start.length));
    else this.#append(findNewPart(start + this.#end, text));
  }

  /**
   * Returns the output for the next result of a running call: all unsent output, except the end of a long output.
   * @returns {string | object[]}
   */
  takeUnsentStart() {
    const text = this.#unsent;
    this.#sent += text;
    this.#unsent = '';
    return this.#withImages(text);
  }

  /** Returns the output for the last result of a call: all unsent output. @returns {string | object[]} */
  takeAllUnsent() {
    this.#trimEnd(MAX_END_CHARS);
    const note = this.#droppedChars > 0 ? `\n[${this.#droppedChars} characters left out]\n` : '';
    const text = this.#unsent + note + this.#end;
    this.#isEndSent ||= this.#end !== '';
    this.#sent += this.#unsent;
    this.#unsent = '';
    this.#replaceEnd('');
    return this.#withImages(text);
  }

  #withImages(value) {
    const text = value.toWellFormed();
    const images = this.#images;
    this.#images = [];
    return images.length === 0 ? text : [...(text === '' ? [] : [{ type: 'text', text }]), ...images];
  }

  #append(text) {
    if (this.#isStartComplete) {
      if (!this.#isEndSent) this.#end += text;
      // Trimmed only at twice the limit, because each trim copies the text.
      if (this.#end.length > 2 * MAX_END_CHARS) this.#trimEnd(MAX_END_CHARS);
      return;
    }
    const space = MAX_START_CHARS - this.#sent.length - this.#unsent.length;
    this.#isStartComplete = text.length > space;
    // Half of a surrogate pair is not valid JSON for the hub.
    const length = this.#isStartComplete && /[\uD800-\uDBFF]/.test(text[space - 1]) ? space - 1 : space;
    this.#unsent += text.slice(0, length);
    if (this.#isStartComplete) this.#append(text.slice(length));
  }

  #replaceEnd(text) {
    this.#end = this.#isEndSent ? '' : text;
    this.#droppedChars = 0;
    this.#trimEnd(2 * MAX_END_CHARS);
  }

  #trimEnd(max) {
    const excess = this.#end.length - max;
    if (excess <= 0) return;
    this.#droppedChars += excess;
    this.#end = this.#end.slice(excess);
  }

  #addImage(block) {
    const converted = block?.type === 'image' ? imageBlock(block) : null;
    if (!converted || this.#seenImages.has(block.data)) return;
    this.#seenImages.add(block.data);
    this.#images.push(converted);
  }
}

/** Returns the part of `text` that is not in `known`. `text` is the whole output so far, or the last part of the output. */
function findNewPart(known, text) {
  if (text.startsWith(known)) return text.slice(known.length);
  const trimmed = known.trimEnd();
  // Agents trim the white space at the end of the final text.
  if (trimmed.endsWith(text.trimEnd())) return '';
  const knownEnd = trimmed.slice(-OVERLAP_CHARS);
  const position = knownEnd.length >= MIN_OVERLAP_CHARS ? text.lastIndexOf(knownEnd) : -1;
  if (position < 0) return known.endsWith('\n') ? text : `\n${text}`;
  const newPart = text.slice(position + knownEnd.length);
  const trailingSpace = known.slice(trimmed.length);
  return newPart.startsWith(trailingSpace) ? newPart.slice(trailingSpace.length) : newPart;
}
