/** The output of a tool call. Clients append the results of a call, so each result has only new output. */

import { asList, isObject, isText } from './values.mjs';
import { imageBlock } from './records.mjs';

/** Limits on the output of a call in characters. Of a longer output, the middle is left out: errors are at the end. */
const MAX_START_CHARS = 1_000_000;
const MAX_END_CHARS = 1_000_000;
/** How many of the last sent characters are searched in an output that replaces the previous one. */
const OVERLAP_CHARS = 200;
/** A shorter text could be found by chance. */
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

/** Returns the text of a completed call, from the less formatted of its two outputs. A structured output is shown as JSON. */
function finalText({ rawOutput, content }) {
  if (isText(rawOutput)) return rawOutput;
  if (isObject(rawOutput) && typeof rawOutput.text === 'string') return rawOutput.text;
  const text = contentText(content);
  if (text !== '' || typeof rawOutput !== 'object' || rawOutput === null) return text;
  const hasText = TEXT_FIELDS.some((name) => Object.hasOwn(rawOutput, name));
  if (hasText) return TEXT_FIELDS.map((name) => rawOutput[name]).find(isText) ?? '';
  return asList(content).length > 0 || Object.keys(rawOutput).length === 0 ? '' : JSON.stringify(rawOutput, null, 2);
}

/** Returns the exit code of a completed command, if the agent reports it. */
export function exitCode({ _meta, rawOutput }) {
  const code = _meta?.terminal_exit?.exit_code ?? rawOutput?.exitCode ?? rawOutput?.metadata?.exit;
  return typeof code === 'number' ? code : undefined;
}

export class ToolOutput {
  /** The sent and the unsent part of the start of the output. */
  #sent = '';
  #unsent = '';
  #isStartComplete = false;
  /** The output after the start, without its first `#droppedChars` characters. It is sent when the call ends. */
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
   * Reads the output in an update of a call: `content`, which replaces the previous output, or a piece of a terminal's.
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
   * Returns the output that was not sent yet, for a result. The end of a long output follows with `takeRest`.
   * @returns {string | object[]}
   */
  take() {
    const text = this.#unsent;
    this.#sent += text;
    this.#unsent = '';
    return this.#withImages(text);
  }

  /** Returns all output that was not sent yet, when the call has ended. @returns {string | object[]} */
  takeRest() {
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
    const left = MAX_START_CHARS - this.#sent.length - this.#unsent.length;
    this.#isStartComplete = text.length > left;
    // Half of a surrogate pair is not valid JSON for the hub.
    const cut = this.#isStartComplete && /[\uD800-\uDBFF]/.test(text[left - 1]) ? left - 1 : left;
    this.#unsent += text.slice(0, cut);
    if (this.#isStartComplete) this.#append(text.slice(cut));
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

/** Returns what follows `known` in `text`, which is the whole output so far, or its last part. */
function findNewPart(known, text) {
  if (text.startsWith(known)) return text.slice(known.length);
  const trimmed = known.trimEnd();
  // Agents trim the final text.
  if (trimmed.endsWith(text.trimEnd())) return '';
  const end = trimmed.slice(-OVERLAP_CHARS);
  const at = end.length >= MIN_OVERLAP_CHARS ? text.lastIndexOf(end) : -1;
  if (at < 0) return known.endsWith('\n') ? text : `\n${text}`;
  const rest = text.slice(at + end.length);
  const blank = known.slice(trimmed.length);
  return rest.startsWith(blank) ? rest.slice(blank.length) : rest;
}
