/**
 * Excerpts of large messages: the hub sends only the first and the last characters of the content's JSON. A large
 * message nearly always contains one long text. The console then shows the beginning and the end of this text.
 */

import { formatSize } from './file-size.ts';
import type { MessagePart } from './message-part.ts';
import { parseMessage } from './parse-message.ts';

/** A stored message of which only an excerpt is shown. */
export interface CutMessage {
  seq: number;
  /** The size of the message's content as JSON. */
  bytes: number;
  /** Whether the missing part is an image. */
  isImage: boolean;
}

/** Limit on the characters that are dropped to cut between two lines. */
const MAX_DROPPED_CHARS = 1000;

/** Characters of the longest escape sequence of JSON. */
const MAX_ESCAPE_CHARS = 6;

/**
 * Parses an excerpt into the parts of its message. The last part is incomplete.
 * @returns one part of the kind `large` if no part of the content can be shown
 */
export function parseExcerpt([start, end]: readonly [string, string], bytes: number): MessagePart[] {
  const first = dropPartialEscape(dropLastLine(start));
  const last = dropFirstLine(end);
  const note = `[${formatSize(bytes - byteLength(first) - byteLength(last))} left out]`;
  const mark = `\\n${note}\\n`;
  const isCut = (part: MessagePart | undefined) => part !== undefined && textOf(part)?.includes(note);
  // The end of the excerpt may begin within an escape sequence.
  for (let dropped = 0; dropped <= MAX_ESCAPE_CHARS; dropped += 1) {
    const parts = tryParse(first + mark + last.slice(dropped));
    if (isCut(parts?.at(-1))) return parts ?? [];
  }
  const parts = tryParse(closeJson(first + mark)) ?? [];
  // The input of a call has several fields, so the end may belong to another field than the start.
  const lastPart = parts.at(-1);
  if (isCut(lastPart) || lastPart?.kind === 'tool') return parts;
  if (lastPart?.kind === 'image') return [...parts.slice(0, -1), { kind: 'large', isImage: true }];
  if (lastPart?.kind === 'result' && lastPart.images.length > 0)
    return [...parts.slice(0, -1), { ...lastPart, images: lastPart.images.slice(0, -1), isImage: true }];
  return [{ kind: 'large' }];
}

function textOf(part: MessagePart): string | undefined {
  return part.kind === 'text' || part.kind === 'thinking' || part.kind === 'result' || part.kind === 'user' || part.kind === 'error'
    ? part.text
    : undefined;
}

function tryParse(json: string): MessagePart[] | null {
  try {
    return parseMessage(JSON.parse(json));
  } catch {
    return null;
  }
}

const byteLength = (text: string) => new TextEncoder().encode(text).length;

function dropLastLine(json: string): string {
  const at = json.lastIndexOf('\\n');
  return at >= json.length - MAX_DROPPED_CHARS ? json.slice(0, at) : json;
}

function dropFirstLine(json: string): string {
  const at = json.indexOf('\\n');
  return at >= 0 && at < MAX_DROPPED_CHARS ? json.slice(at + 2) : json;
}

/** Drops an incomplete escape sequence at the end. An even number of backslashes at the end is complete. */
function dropPartialEscape(json: string): string {
  const [partial = '', backslashes = ''] = /(\\+)(?:u[\da-f]{0,3})?$/i.exec(json) ?? [];
  return backslashes.length % 2 === 1 ? json.slice(0, json.length - partial.length + backslashes.length - 1) : json;
}

/** Completes JSON that ends early: closes the open string, arrays and objects. */
function closeJson(json: string): string {
  const open: string[] = [];
  let isInText = false;
  for (let at = 0; at < json.length; at += 1) {
    const character = json[at];
    if (isInText && character === '\\') at += 1;
    else if (character === '"') isInText = !isInText;
    else if (!isInText && (character === '{' || character === '[')) open.push(character === '{' ? '}' : ']');
    else if (!isInText && (character === '}' || character === ']')) open.pop();
  }
  return json + (isInText ? '"' : '') + open.reverse().join('');
}
