/** Builds the items of a conversation: message parts in order, with the results of a tool call attached to the call. */

import type { CompletedRequest, Message } from '../api/types.ts';
import type { LiveText, OutgoingMessage } from '../state/types.ts';
import { type CutMessage, parseExcerpt } from './excerpt.ts';
import { type MessagePart, parseMessage } from './parse-message.ts';
import { validRequests } from './permissions.ts';

/** A tool call with its output so far. */
export interface ToolItem {
  kind: 'tool';
  key: string;
  name: string;
  input: unknown;
  output: string;
  /** Data URLs of the images in the output. */
  images: string[];
  state: 'running' | 'done' | 'failed';
  /** The completed permission request of the call, if there was one. */
  permission?: CompletedRequest;
  createdAt: number;
  cut?: CutMessage[];
}

/** `cut`: the messages of the item that are not shown whole. */
export type TimelineItem = (
  | ToolItem
  | (Exclude<MessagePart, { kind: 'tool' | 'result' | 'user' }> & { key: string; createdAt: number; isLive?: never })
  /** `isQueued`: the message waits for the agent. */
  | (Extract<MessagePart, { kind: 'user' }> & { key: string; createdAt: number; isQueued: boolean })
  /** What the agent is writing. Its key is that of the stored item that will replace it. */
  | { kind: LiveText['kind']; key: string; text: string; isLive: true }
  | { kind: 'result'; key: string; text: string; images: string[]; isError: boolean; createdAt: number }
  | { kind: 'permission'; key: string; request: CompletedRequest; createdAt: number }
  | { kind: 'outgoing'; key: string; outgoing: OutgoingMessage }
) & { cut?: CutMessage[] };

const partsCache = new WeakMap<Message, MessagePart[]>();

function getParts(message: Message): MessagePart[] {
  let parts = partsCache.get(message);
  if (!parts) partsCache.set(message, (parts = 'content' in message ? parseOrUnknown(message.content) : parseExcerpt(message.excerpt as [string, string], message.contentBytes)));
  return parts;
}

/** A parse error affects only its own message. */
function parseOrUnknown(content: unknown): MessagePart[] {
  try {
    return parseMessage(content);
  } catch {
    return [{ kind: 'unknown', json: content }];
  }
}

export interface TimelineInput {
  /** In ascending order of `seq`. */
  messages: Message[];
  outgoing: OutgoingMessage[];
  live?: LiveText[];
  /** Whether the hub has older messages. */
  hasOlder: boolean;
  /** The completed permission requests by id. */
  completed?: Record<string, CompletedRequest> | undefined;
  /** The seqs of the messages that wait for the agent, as the CLI wrote them. */
  queued?: unknown;
}

export interface AgentActivity {
  active: boolean;
  thinking: boolean;
}

/** How long after the end of its turn a text may arrive. */
const LATE_TEXT_MS = 2_000;

/** The tool that writes the session's todos. It has no output. */
const TODO_TOOL = 'TodoWrite';

/**
 * Returns the items of a conversation, oldest first.
 *
 * No record marks the end of a tool call, and its output may arrive in many messages. A call with output is therefore done
 * once the agent writes something else or stops working.
 */
export function buildTimeline({ messages, outgoing, live = [], hasOlder, completed = {}, queued }: TimelineInput, { active, thinking }: AgentActivity): TimelineItem[] {
  const items: TimelineItem[] = [];
  const tools = new Map<string, ToolItem>();
  const callsWithOutput = new Set<ToolItem>();
  const markDone = (calls: Iterable<ToolItem>) => {
    for (const tool of calls) if (tool.state === 'running') tool.state = 'done';
    callsWithOutput.clear();
  };
  for (const message of messages) {
    getParts(message).forEach((part, index, parts) => {
      const isCut = !('content' in message) && index === parts.length - 1;
      const cut = isCut ? { cut: [{ seq: message.seq, bytes: message.contentBytes, isImage: 'isImage' in part }] } : {};
      const key = partKey(message.localId ?? message.id, index);
      const { createdAt } = message;
      if (part.kind === 'tool') {
        const { name, input } = part;
        markDone(callsWithOutput);
        const tool: ToolItem = { kind: 'tool', key, name, input, output: '', images: [], state: name === TODO_TOOL ? 'done' : 'running', createdAt, ...cut };
        tools.set(part.id, tool);
        items.push(tool);
      } else if (part.kind === 'result') {
        const { text, images, isError } = part;
        const tool = tools.get(part.id);
        // The call may be among older messages that are not loaded.
        if (tool) callsWithOutput.add(appendResult(tool, part, cut.cut));
        else items.push({ kind: 'result', key, text, images, isError, createdAt, ...cut });
      } else {
        // The end of a turn also ends calls without output. A user message ends nothing.
        if (part.kind !== 'user') markDone(part.kind === 'event' && part.name === 'ready' ? tools.values() : callsWithOutput);
        items.push(part.kind === 'user' ? { ...part, key, createdAt, isQueued: Array.isArray(queued) && queued.includes(message.seq), ...cut } : { ...part, key, createdAt, ...cut });
      }
    });
  }
  if (!thinking) markDone(active ? callsWithOutput : tools.values());
  const since = hasOlder ? (messages[0]?.createdAt ?? 0) : 0;
  return [
    ...insertRequests(mergeResults(moveTurnEnds(items)), attachRequests(tools, completed), since),
    ...(active ? live.filter(({ text }) => text.trim() !== '') : []).map(({ id, kind, text }): TimelineItem => ({ kind, key: partKey(id, 0), text, isLive: true })),
    ...outgoing.map((message): TimelineItem => ({ kind: 'outgoing', key: message.localId, outgoing: message })),
  ];
}

const partKey = (messageId: string, index: number): string => `message ${messageId} ${index}`;

function appendResult(tool: ToolItem, { text, images, isError }: Extract<MessagePart, { kind: 'result' }>, cut: CutMessage[] = []): ToolItem {
  if (cut.length > 0) tool.cut = [...(tool.cut ?? []), ...cut];
  tool.output += text;
  tool.images.push(...images);
  if (isError) tool.state = 'failed';
  return tool;
}

/** Attaches each completed request to the tool call with its id. Returns the requests without a loaded call. */
function attachRequests(tools: Map<string, ToolItem>, completed: Record<string, unknown>): [id: string, request: CompletedRequest][] {
  return validRequests(completed).filter(([id, request]) => {
    const tool = tools.get(id);
    if (!tool) return true;
    tool.permission = request;
    // A denied call never runs.
    if (request.status !== 'approved' && tool.state === 'running') tool.state = 'failed';
    return false;
  });
}

/** Inserts completed requests by time. Requests before `since` belong to older messages that are not loaded. */
function insertRequests(items: TimelineItem[], requests: [id: string, request: CompletedRequest][], since: number): TimelineItem[] {
  const sorted = requests
    .map(([id, request]) => ({ kind: 'permission' as const, key: `permission ${id}`, request, createdAt: request.completedAt ?? request.createdAt ?? 0 }))
    .filter(({ createdAt }) => createdAt >= since)
    .sort((a, b) => a.createdAt - b.createdAt);
  const result: TimelineItem[] = [];
  let next = 0;
  for (const item of items) {
    for (let request = sorted[next]; request && 'createdAt' in item && request.createdAt < item.createdAt; request = sorted[next]) {
      result.push(request);
      next += 1;
    }
    result.push(item);
  }
  return [...result, ...sorted.slice(next)];
}

/** Moves the end of a turn below text that follows it at once: some CLIs report `ready` before the last text is sent. */
function moveTurnEnds(items: TimelineItem[]): TimelineItem[] {
  const result: TimelineItem[] = [];
  let turnEnd: Extract<TimelineItem, { kind: 'event' }> | null = null;
  for (const item of items) {
    const isLateText: boolean = turnEnd !== null && item.kind === 'text' && !item.isLive && item.createdAt - turnEnd.createdAt <= LATE_TEXT_MS;
    if (turnEnd !== null && !isLateText) {
      result.push(turnEnd);
      turnEnd = null;
    }
    if (item.kind === 'event' && item.name === 'ready') turnEnd = item;
    else result.push(item);
  }
  return turnEnd === null ? result : [...result, turnEnd];
}

/** Merges consecutive results whose call is not loaded. */
function mergeResults(items: TimelineItem[]): TimelineItem[] {
  const result: TimelineItem[] = [];
  for (const item of items) {
    const last = result.at(-1);
    if (item.kind === 'result' && last?.kind === 'result') {
      result[result.length - 1] = { ...last, text: last.text + item.text, images: [...last.images, ...item.images], isError: last.isError || item.isError, cut: [...(last.cut ?? []), ...(item.cut ?? [])] };
    } else {
      result.push(item);
    }
  }
  return result;
}
