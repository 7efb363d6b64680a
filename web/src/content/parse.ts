/**
 * What a message says. Its content is whatever its sender wrote (docs/PROTOCOL.md, "What agents write"): what is known is
 * taken apart here, everything else is kept as it is, so nothing is lost and nothing breaks the page.
 */

import type { Attachment, TodoItem } from '../api/types.ts';
import { isObject } from '../checked.ts';
import { json } from './json.ts';

/** A piece of a message. */
export type Part =
  | { kind: 'user'; text: string; attachments: Attachment[]; from: string | undefined }
  | { kind: 'text'; text: string }
  | { kind: 'thinking'; text: string }
  | { kind: 'tool'; id: string; name: string; input: unknown }
  /** `images`: addresses of pictures, which hold the pictures themselves. */
  | { kind: 'result'; id: string; text: string; images: string[]; isError: boolean }
  | { kind: 'image'; url: string }
  | { kind: 'plan'; todos: TodoItem[] }
  | { kind: 'event'; name: string; text: string | undefined }
  | { kind: 'unknown'; json: unknown };

type Fields = Record<string, unknown>;

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/** Takes a message's content apart. */
export function parse(content: unknown): Part[] {
  const record = findRecord(content);
  const parts = record ? ofRecord(record) : ofBody(content);
  return parts ?? [{ kind: 'unknown', json: content }];
}

/** The role-wrapped record of a content: itself, or what stands in one of the places where agents put it. */
function findRecord(content: unknown): Fields | null {
  if (!isObject(content)) return null;
  const { message, data, payload } = content;
  const places = [content, message, isObject(data) ? data.message : undefined, isObject(payload) ? payload.message : undefined];
  return places.find((place): place is Fields => isObject(place) && typeof place.role === 'string' && 'content' in place) ?? null;
}

function ofRecord({ role, content, meta }: Fields): Part[] | null {
  if (role === 'user') return ofUser(content, isObject(meta) ? text(meta.sentFrom) : undefined);
  return ofBody(content);
}

function ofUser(content: unknown, from: string | undefined): Part[] | null {
  if (typeof content === 'string') return [{ kind: 'user', text: content, attachments: [], from }];
  if (!isObject(content) || content.type !== 'text') return null;
  const attachments = Array.isArray(content.attachments) ? content.attachments.filter(isObject).map(attachmentOf) : [];
  return [{ kind: 'user', text: text(content.text) ?? '', attachments, from }];
}

function attachmentOf({ id, filename, mimeType, size, path }: Fields, at: number): Attachment {
  return {
    id: text(id) ?? `${at}`,
    filename: text(filename) ?? 'A file',
    mimeType: text(mimeType) ?? 'application/octet-stream',
    size: typeof size === 'number' ? size : 0,
    path: text(path) ?? '',
  };
}

/** What an agent says: plain, an `output` record, a record of its own kind, or an event. */
function ofBody(body: unknown): Part[] | null {
  if (typeof body === 'string') return [{ kind: 'text', text: body }];
  if (Array.isArray(body)) return ofBlocks(body);
  if (!isObject(body)) return null;
  if (body.type === 'text' && typeof body.text === 'string') return [{ kind: 'text', text: body.text }];
  if (!isObject(body.data)) return null;
  if (body.type === 'output') return ofOutput(body.data);
  if (body.type === 'event') return ofEvent(body.data);
  return ofKind(body.data);
}

function ofOutput(data: Fields): Part[] | null {
  if (data.type === 'summary') return text(data.summary) === undefined ? null : [{ kind: 'event', name: 'summary', text: text(data.summary) }];
  const { content, role } = isObject(data.message) ? data.message : {};
  // What was typed at the agent's own prompt.
  if (typeof content === 'string' && role === 'user') return ofUser(content, 'cli');
  if (typeof content === 'string') return [{ kind: 'text', text: content }];
  return Array.isArray(content) ? ofBlocks(content) : null;
}

function ofBlocks(blocks: unknown[]): Part[] | null {
  return blocks.map((block) => ofBlock(block) ?? { kind: 'unknown', json: block });
}

function ofBlock(block: unknown): Part | null {
  if (!isObject(block)) return null;
  switch (block.type) {
    case 'text':
      return typeof block.text === 'string' ? { kind: 'text', text: block.text } : null;
    case 'thinking':
      return typeof block.thinking === 'string' ? { kind: 'thinking', text: block.thinking } : null;
    case 'tool_use':
      return typeof block.id === 'string' && typeof block.name === 'string'
        ? { kind: 'tool', id: block.id, name: block.name, input: block.input }
        : null;
    case 'tool_result':
      return typeof block.tool_use_id === 'string'
        ? { kind: 'result', id: block.tool_use_id, ...output(block.content), isError: block.is_error === true }
        : null;
    case 'image': {
      const url = imageOf(block);
      return url === null ? null : { kind: 'image', url };
    }
    default:
      return null;
  }
}

/** Records of the agents' own kinds. */
function ofKind(data: Fields): Part[] | null {
  const id = text(data.callId) ?? text(data.id);
  switch (data.type) {
    case 'message':
      return text(data.message) === undefined ? null : [{ kind: 'text', text: String(data.message) }];
    case 'reasoning':
      return text(data.message) === undefined ? null : [{ kind: 'thinking', text: String(data.message) }];
    case 'tool-call':
      return id && typeof data.name === 'string' ? [{ kind: 'tool', id, name: data.name, input: data.input }] : null;
    case 'tool-call-result':
      return id ? [{ kind: 'result', id, ...output(data.output), isError: data.is_error === true || data.isError === true }] : null;
    case 'plan':
      return Array.isArray(data.entries) ? [{ kind: 'plan', todos: todosOf(data.entries) }] : null;
    default:
      return null;
  }
}

function ofEvent(data: Fields): Part[] | null {
  const name = text(data.type);
  return name === undefined ? null : [{ kind: 'event', name, text: text(data.message) ?? text(data.text) ?? text(data.mode) }];
}

/** A tool's output taken apart: pictures, and the rest as text. */
function output(content: unknown): { text: string; images: string[] } {
  const blocks = Array.isArray(content) ? content : [content];
  const images = blocks.map((one) => (isObject(one) && one.type === 'image' ? imageOf(one) : null));
  if (images.every((one) => one === null)) return { text: plain(content), images: [] };
  const rest = blocks.filter((_, at) => images[at] === null);
  return { text: rest.length > 0 ? plain(rest) : '', images: images.filter((one) => one !== null) };
}

/** The address of a picture that a block holds: in a `source` of its own, or beside its type, as tool servers write it. */
function imageOf({ source, ...block }: Fields): string | null {
  const { data, media_type, mimeType } = isObject(source) ? source : block;
  const type = text(media_type) ?? text(mimeType);
  if (typeof data !== 'string' || type === undefined || !/^image\/[\w.+-]+$/.test(type)) return null;
  return `data:${type};base64,${data}`;
}

/** A tool's output as text: itself, the texts of its blocks, or its JSON. */
export function plain(output: unknown): string {
  if (typeof output === 'string') return output;
  if (output === undefined || output === null) return '';
  if (Array.isArray(output) && output.every((one) => isObject(one) && typeof one.text === 'string')) {
    return output.map((one) => (one as { text: string }).text).join('\n');
  }
  return json(output);
}

const STATUSES = ['pending', 'in_progress', 'completed'] as const;
const PRIORITIES = ['high', 'medium', 'low'] as const;

/** The todo items of a tool call's input or a plan's entries; what is none is left out. */
export function todosOf(entries: unknown): TodoItem[] {
  if (!Array.isArray(entries)) return [];
  return entries.filter(isObject).flatMap((entry, at) => {
    const status = STATUSES.find((one) => one === entry.status) ?? 'pending';
    const priority = PRIORITIES.find((one) => one === entry.priority) ?? 'medium';
    return typeof entry.content === 'string' ? [{ id: text(entry.id) ?? `${at}`, content: entry.content, status, priority }] : [];
  });
}
