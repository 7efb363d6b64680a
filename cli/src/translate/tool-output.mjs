/** The output of a tool call. Clients append the results of a call, so only what is new is sent. */

import { asList, cutText, isObject, isText } from './values.mjs';
import { imageBlock } from './records.mjs';

/** Limit on the output of a call in characters. Agents shorten the output themselves, to much less. */
const MAX_OUTPUT_CHARS = 2_000_000;
/** How many of the last sent characters are searched in an output that replaces the previous one. */
const OVERLAP_CHARS = 200;
/** A shorter end would be found by chance. */
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
      return isText(block.resource?.text) ? block.resource.text : isText(block.resource?.uri) ? `[${block.resource.uri}](${block.resource.uri})` : '';
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
  #sent = '';
  #unsent = '';
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
    this.#append(newPart(this.#sent + this.#unsent, text));
  }

  /**
   * Returns the output that was not sent yet, for a result.
   * @returns {string | object[]}
   */
  take() {
    const text = this.#unsent.toWellFormed();
    const images = this.#images;
    this.#sent += this.#unsent;
    this.#unsent = '';
    this.#images = [];
    return images.length === 0 ? text : [...(text === '' ? [] : [{ type: 'text', text }]), ...images];
  }

  #append(text) {
    const left = MAX_OUTPUT_CHARS - this.#sent.length - this.#unsent.length;
    if (left > 0) this.#unsent += cutText(text, left);
  }

  #addImage(block) {
    const converted = block?.type === 'image' ? imageBlock(block) : null;
    if (!converted || this.#seenImages.has(block.data)) return;
    this.#seenImages.add(block.data);
    this.#images.push(converted);
  }
}

/** Returns what follows `known` in `text`, which is the whole output so far, or its last part. */
function newPart(known, text) {
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
