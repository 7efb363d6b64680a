/**
 * Parses the content of a message, which may be any JSON. Known records become typed parts (docs/PROTOCOL.md "What agents write").
 * Other content becomes an `unknown` part, so that all content is shown.
 */

import type { Attachment, TodoItem } from '../api/types.ts';
import { isObject } from '../api/validate.ts';
import { formatJson } from './format-json.ts';
import type { Continuation, MessagePart, QueueChange } from './message-part.ts';
import { parseSystemRecord } from './system-record.ts';

type Fields = Record<string, unknown>;

const asString = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

export function parseMessage(content: unknown): MessagePart[] {
  const record = findRecord(content);
  const parts = record ? parseRecord(record) : parseAgentContent(content);
  return parts ?? [{ kind: 'unknown', json: content }];
}

/** Finds the record with a `role`: the content itself, or a record that an agent has nested in the content. */
function findRecord(content: unknown): Fields | null {
  if (!isObject(content)) return null;
  const { message, data, payload } = content;
  const candidates = [content, message, isObject(data) ? data.message : undefined, isObject(payload) ? payload.message : undefined];
  return candidates.find((value): value is Fields => isObject(value) && typeof value.role === 'string' && 'content' in value) ?? null;
}

function parseRecord({ role, content, meta }: Fields): MessagePart[] | null {
  if (role === 'user') return parseUserContent(content, isObject(meta) ? asString(meta.sentFrom) : undefined);
  return parseAgentContent(content);
}

function parseUserContent(content: unknown, from: string | undefined): MessagePart[] | null {
  if (typeof content === 'string') return [{ kind: 'user', text: content, attachments: [], from }];
  if (!isObject(content) || content.type !== 'text') return null;
  const attachments = Array.isArray(content.attachments) ? content.attachments.filter(isObject).map(parseAttachment) : [];
  return [{ kind: 'user', text: asString(content.text) ?? '', attachments, from }];
}

function parseAttachment({ id, filename, mimeType, size, path }: Fields, index: number): Attachment {
  return {
    id: asString(id) ?? `${index}`,
    filename: asString(filename) ?? 'Unnamed file',
    mimeType: asString(mimeType) ?? 'application/octet-stream',
    size: typeof size === 'number' ? size : 0,
    path: asString(path) ?? '',
  };
}

/** Parses plain text, blocks, an `output` record, an event, or a record of another type. */
function parseAgentContent(body: unknown): MessagePart[] | null {
  if (typeof body === 'string') return [{ kind: 'text', text: body }];
  if (Array.isArray(body)) return parseBlocks(body);
  if (!isObject(body)) return null;
  if (body.type === 'text' && typeof body.text === 'string') return [{ kind: 'text', text: body.text }];
  if (!isObject(body.data)) return null;
  if (body.type === 'output') return parseOutput(body.data);
  if (body.type === 'event') return parseEvent(body.data);
  return parseTypedRecord(body.data);
}

/** Types of records that the console does not show. */
const INVISIBLE_TYPES = ['rate_limit_event', 'tool_progress'];

function parseOutput(data: Fields): MessagePart[] | null {
  if (data.type === 'queue') return [{ kind: 'queue', changes: parseQueueChanges(data.queued), text: undefined }];
  // A program wrote a message with `isMeta` or `isCompactSummary` for the model only.
  if (INVISIBLE_TYPES.includes(String(data.type)) || data.isMeta === true || data.isCompactSummary === true) return [];
  if (data.type === 'system') return parseSystemRecord(data);
  if (data.type === 'summary')
    return asString(data.summary) === undefined ? null : [{ kind: 'event', name: 'summary', text: asString(data.summary) }];
  const { content, role } = isObject(data.message) ? data.message : {};
  // A prompt that was typed at the terminal.
  if (typeof content === 'string' && role === 'user') return parseUserContent(content, 'cli');
  const parts: MessagePart[] | null =
    typeof content === 'string' ? [{ kind: 'text', text: content }] : Array.isArray(content) ? parseBlocks(content) : null;
  const parentId = asString(data.parent_tool_use_id);
  if (parentId && parts) return parts.map((part) => ({ ...part, parentId }));
  // With `isApiErrorMessage`, the text says why the turn failed.
  return data.isApiErrorMessage === true && parts ? parts.map((part) => (part.kind === 'text' ? { ...part, kind: 'error' } : part)) : parts;
}

function parseBlocks(blocks: unknown[]): MessagePart[] {
  return blocks.map((block) => parseBlock(block) ?? { kind: 'unknown', json: block });
}

function parseBlock(block: unknown): MessagePart | null {
  if (!isObject(block)) return null;
  switch (block.type) {
    case 'text':
      return typeof block.text === 'string' ? { kind: 'text', text: block.text, ...parseContinuation(block) } : null;
    case 'thinking':
      return typeof block.thinking === 'string' ? { kind: 'thinking', text: block.thinking, ...parseContinuation(block) } : null;
    case 'tool_use':
      return typeof block.id === 'string' && typeof block.name === 'string'
        ? { kind: 'tool', id: block.id, name: block.name, input: block.input }
        : null;
    case 'tool_result':
      return typeof block.tool_use_id === 'string'
        ? {
            kind: 'result',
            id: block.tool_use_id,
            ...parseToolOutput(block.content),
            isError: block.is_error === true,
            ...(block.is_final === true && { isFinal: true }),
          }
        : null;
    case 'image': {
      const url = imageUrl(block);
      return url === null ? null : { kind: 'image', url };
    }
    default:
      return null;
  }
}

function parseContinuation({ continuedBy }: Fields): { continuedBy?: Continuation } {
  if (!isObject(continuedBy) || typeof continuedBy.localId !== 'string') return {};
  return { continuedBy: { localId: continuedBy.localId, end: asString(continuedBy.end) ?? '', start: asString(continuedBy.start) ?? '' } };
}

/** Parses the records of agents that do not write `output` records. */
function parseTypedRecord(data: Fields): MessagePart[] | null {
  const id = asString(data.callId) ?? asString(data.id);
  switch (data.type) {
    case 'message':
      return asString(data.message) === undefined ? null : [{ kind: 'text', text: String(data.message) }];
    case 'reasoning':
      return asString(data.message) === undefined ? null : [{ kind: 'thinking', text: String(data.message) }];
    case 'tool-call':
      return id && typeof data.name === 'string' ? [{ kind: 'tool', id, name: data.name, input: data.input }] : null;
    case 'tool-call-result':
      return id
        ? [{ kind: 'result', id, ...parseToolOutput(data.output), isError: data.is_error === true || data.isError === true }]
        : null;
    case 'plan':
      return Array.isArray(data.entries) ? [{ kind: 'plan', todos: parseTodos(data.entries) }] : null;
    default:
      return null;
  }
}

function parseEvent(data: Fields): MessagePart[] | null {
  const name = asString(data.type);
  if (name === undefined) return null;
  const text = asString(data.message) ?? asString(data.text) ?? asString(data.mode);
  const changes = parseQueueChanges(data.queued);
  if (changes.length > 0) return [{ kind: 'queue', changes, text }];
  return name === 'error' && text !== undefined ? [{ kind: 'error', text }] : [{ kind: 'event', name, text }];
}

/** Parses what happened to queued messages. Invalid changes are dropped. */
function parseQueueChanges(changes: unknown): QueueChange[] {
  return (Array.isArray(changes) ? changes : []).filter(isObject).flatMap(({ id, change, text }): QueueChange[] => {
    if (typeof id !== 'string' || (change !== 'started' && change !== 'canceled')) return [];
    return [{ id, change, ...(typeof text === 'string' && { text }) }];
  });
}

/** Splits a tool's output into images and text. */
function parseToolOutput(content: unknown): { text: string; images: string[] } {
  const blocks = Array.isArray(content) ? content : [content];
  const images = blocks.map((block) => (isObject(block) && block.type === 'image' ? imageUrl(block) : null));
  if (images.every((image) => image === null)) return { text: outputText(content), images: [] };
  const otherBlocks = blocks.filter((_, index) => images[index] === null);
  return { text: otherBlocks.length > 0 ? outputText(otherBlocks) : '', images: images.filter((image) => image !== null) };
}

/** Returns the data URL of an image block. Agents put the data into `source`, tool servers into the block itself. */
function imageUrl({ source, ...block }: Fields): string | null {
  const { data, media_type, mimeType } = isObject(source) ? source : block;
  const type = asString(media_type) ?? asString(mimeType);
  if (typeof data !== 'string' || type === undefined || !/^image\/[\w.+-]+$/.test(type)) return null;
  return `data:${type};base64,${data}`;
}

/** Returns a tool's output as text: a string, the texts of its blocks, or JSON. */
export function outputText(output: unknown): string {
  if (typeof output === 'string') return output;
  if (output === undefined || output === null) return '';
  if (Array.isArray(output) && output.every((block) => isObject(block) && typeof block.text === 'string')) {
    return output.map((block) => (block as { text: string }).text).join('\n');
  }
  return formatJson(output);
}

const STATUSES = ['pending', 'in_progress', 'completed'] as const;
const PRIORITIES = ['high', 'medium', 'low'] as const;

/** Parses the todo items of a tool call or a plan. Invalid items are dropped. */
export function parseTodos(entries: unknown): TodoItem[] {
  if (!Array.isArray(entries)) return [];
  return entries.filter(isObject).flatMap((entry, index) => {
    const status = STATUSES.find((name) => name === entry.status) ?? 'pending';
    const priority = PRIORITIES.find((name) => name === entry.priority) ?? 'medium';
    return typeof entry.content === 'string' ? [{ id: asString(entry.id) ?? `${index}`, content: entry.content, status, priority }] : [];
  });
}
