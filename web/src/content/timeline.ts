/** Builds the items of a conversation: message parts in order, with the results of a tool call attached to the call. */

import type { CompletedRequest, Message } from '../api/types.ts';
import { type CutMessage, parseExcerpt } from './excerpt.ts';
import type { Continuation, MessagePart } from './message-part.ts';
import { parseMessage } from './parse-message.ts';
import { validRequests } from './permissions.ts';
import type { LiveText, OutgoingMessage } from './unstored-messages.ts';

/** A tool call with its output so far. */
export interface ToolItem {
  kind: 'tool';
  key: string;
  name: string;
  input: unknown;
  output: string;
  /** Data URLs of the images in the output. */
  images: string[];
  /** `waiting`: the permission request of the call waits for the user's answer. */
  state: 'running' | 'waiting' | 'done' | 'failed';
  /** The completed permission request of the call, if there was one. */
  permission?: CompletedRequest;
  createdAt: number;
  cut?: CutMessage[];
}

/** A text of the agent: one message, or several messages that are parts of one text. */
export interface TextItem {
  kind: LiveText['kind'];
  /** The key of the first part, stored or not. */
  key: string;
  text: string;
  /** `Infinity` if no part is stored. */
  createdAt: number;
  /** Whether the agent is still writing the text. */
  isLive?: boolean;
  /** Whether the beginning is missing, so that the text is not valid Markdown. */
  isTail?: boolean;
  cut?: CutMessage[];
}

/** `cut`: the messages of the item that are shown only as excerpts. */
export type TimelineItem = (
  | ToolItem
  | TextItem
  | (Exclude<MessagePart, { kind: 'tool' | 'result' | 'user' | TextItem['kind'] }> & { key: string; createdAt: number })
  /** `isQueued`: the message waits for the agent. */
  | (Extract<MessagePart, { kind: 'user' }> & { key: string; createdAt: number; isQueued: boolean })
  | { kind: 'result'; key: string; text: string; images: string[]; isError: boolean; createdAt: number }
  | { kind: 'permission'; key: string; request: CompletedRequest; createdAt: number }
  | { kind: 'outgoing'; key: string; outgoing: OutgoingMessage }
) & { cut?: CutMessage[] };

const partsCache = new WeakMap<Message, MessagePart[]>();

function getParts(message: Message): MessagePart[] {
  let parts = partsCache.get(message);
  if (!parts)
    partsCache.set(
      message,
      (parts =
        'content' in message ? parseOrUnknown(message.content) : parseExcerpt(message.excerpt as [string, string], message.contentBytes)),
    );
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
  /** The pending permission requests by id. */
  requests?: Record<string, unknown> | undefined;
  /** The completed permission requests by id. */
  completed?: Record<string, CompletedRequest> | undefined;
  /** The seqs of the messages that wait for the agent, as the CLI wrote the list. */
  queued?: unknown;
}

export interface AgentActivity {
  active: boolean;
  thinking: boolean;
}

/** A text that arrives at most this long after the end of a turn still belongs to the turn. */
const LATE_TEXT_MS = 2_000;

/** The tool that writes the session's todos, and has no output. */
const TODO_TOOL = 'TodoWrite';

/**
 * Returns the items of a conversation, oldest first.
 *
 * The output of a tool call may arrive in many messages, and most CLIs do not mark the last one. A call with output is therefore
 * done once the agent writes something else or stops working.
 */
export function buildTimeline(
  { messages, outgoing, live = [], hasOlder, requests = {}, completed = {}, queued }: TimelineInput,
  { active, thinking }: AgentActivity,
): TimelineItem[] {
  const items: TimelineItem[] = [];
  const tools = new Map<string, ToolItem>();
  const callsWithOutput = new Set<ToolItem>();
  const texts = new TextParts();
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
        const tool: ToolItem = {
          kind: 'tool',
          key,
          name,
          input,
          output: '',
          images: [],
          state: name === TODO_TOOL ? 'done' : 'running',
          createdAt,
          ...cut,
        };
        tools.set(part.id, tool);
        items.push(tool);
      } else if (part.kind === 'result') {
        const { text, images, isError } = part;
        const tool = tools.get(part.id);
        // The message with the call may not be loaded.
        if (tool) {
          appendResult(tool, part, cut.cut);
          callsWithOutput.add(tool);
          if (part.isFinal) markDone([tool]);
        } else items.push({ kind: 'result', key, text, images, isError, createdAt, ...cut });
      } else {
        // The end of a turn also ends calls without output. A user message ends nothing.
        if (part.kind !== 'user') markDone(part.kind === 'event' && part.name === 'ready' ? tools.values() : callsWithOutput);
        if (part.kind === 'text' || part.kind === 'thinking') {
          const item = texts.add(
            index === 0 ? message.localId : null,
            { kind: part.kind, key, text: part.text, createdAt, ...cut },
            part.continuedBy,
          );
          if (item) items.push(item);
        } else {
          const common = { key, createdAt, ...cut };
          items.push(
            part.kind === 'user'
              ? { ...part, ...common, isQueued: Array.isArray(queued) && queued.includes(message.seq) }
              : { ...part, ...common },
          );
        }
      }
    });
  }
  const isWriting = active && live.some(({ pieces }) => pieces.some(({ text }) => text.trim() !== ''));
  if (!thinking || isWriting) markDone(active ? callsWithOutput : tools.values());
  const unstored = active ? live.flatMap((text) => texts.add(text.id, toItem(text)) ?? []) : [];
  if (active && thinking) texts.markLive(items.findLast(({ kind }) => kind !== 'user'));
  markWaiting(tools, requests);
  const since = hasOlder ? (messages[0]?.createdAt ?? 0) : 0;
  return [
    ...insertRequests(mergeResults(moveTurnEnds(items)), attachRequests(tools, completed), since),
    ...unstored.filter(({ text }) => text.trim() !== ''),
    ...outgoing.map((message): TimelineItem => ({ kind: 'outgoing', key: message.localId, outgoing: message })),
  ];
}

/** Shown in place of missing text. */
const GAP = '…';

function toItem({ id, kind, pieces }: LiveText): TextItem {
  const isTail = (pieces[0]?.start ?? 0) > 0;
  const text = pieces.map((piece) => piece.text).join(`\n${GAP}\n`);
  return { kind, key: partKey(id, 0), text: isTail ? `${GAP}${text}` : text, createdAt: Infinity, isLive: true, isTail };
}

/** Joins texts that were stored in parts. */
class TextParts {
  /** The texts whose next part has not been added, by the `localId` of the next part. */
  #unfinished = new Map<string, { item: TextItem; continuation: Continuation }>();

  /** Appends a part to the text that it continues. Returns the part as a new item if it continues no text. */
  add(localId: string | null, item: TextItem, continuation?: Continuation): TextItem | null {
    const previous = localId === null ? undefined : this.#unfinished.get(localId);
    const joined = previous && joinParts(previous.item, previous.continuation, item);
    const target = previous && joined !== undefined ? Object.assign(previous.item, { text: joined, isLive: item.isLive ?? false }) : item;
    if (target !== item && item.cut) target.cut = [...(target.cut ?? []), ...item.cut];
    if (previous && target === previous.item) this.#unfinished.delete(previous.continuation.localId);
    if (continuation) this.#unfinished.set(continuation.localId, { item: target, continuation });
    return target === item ? item : null;
  }

  /** Marks an item as live if its next part is still to come. */
  markLive(item: TimelineItem | undefined): void {
    for (const unfinished of this.#unfinished.values()) if (unfinished.item === item) unfinished.item.isLive = true;
  }
}

/** Joins the texts of two parts. Returns undefined if the second part does not continue the first. */
function joinParts(first: TextItem, { end, start }: Continuation, next: TextItem): string | undefined {
  if (first.kind !== next.kind || !first.text.endsWith(end)) return undefined;
  const text = first.text.slice(0, first.text.length - end.length);
  if (next.text.startsWith(start)) return text + next.text.slice(start.length);
  // A live text may still be shorter than `start`, or its beginning may be missing.
  if (next.isLive && start.startsWith(next.text)) return text;
  return next.isTail ? `${text}${next.text}` : undefined;
}

const partKey = (messageId: string, index: number): string => `message ${messageId} ${index}`;

function appendResult(tool: ToolItem, { text, images, isError }: Extract<MessagePart, { kind: 'result' }>, cut: CutMessage[] = []): void {
  if (cut.length > 0) tool.cut = [...(tool.cut ?? []), ...cut];
  tool.output += text;
  tool.images.push(...images);
  if (isError) tool.state = 'failed';
}

/** Returns the id of the call that a request belongs to. The second request of a call has the id of the call with `#2`. */
const callIdOf = (requestId: string) => requestId.replace(/#\d+$/, '');

/** Sets the state of the calls that have a pending request. */
function markWaiting(tools: Map<string, ToolItem>, requests: Record<string, unknown>): void {
  for (const id of Object.keys(requests)) {
    const tool = tools.get(id) ?? tools.get(callIdOf(id));
    if (tool && tool.state !== 'failed') tool.state = 'waiting';
  }
}

/** Attaches each completed request to the tool call with the same id. Returns the requests whose call is not loaded. */
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
    .map(([id, request]) => ({
      kind: 'permission' as const,
      key: `permission ${id}`,
      request,
      createdAt: request.completedAt ?? request.createdAt ?? 0,
    }))
    .filter(({ createdAt }) => createdAt >= since)
    .sort((a, b) => a.createdAt - b.createdAt);
  const result: TimelineItem[] = [];
  let nextIndex = 0;
  for (const item of items) {
    for (
      let request = sorted[nextIndex];
      request && 'createdAt' in item && request.createdAt < item.createdAt;
      request = sorted[nextIndex]
    ) {
      result.push(request);
      nextIndex += 1;
    }
    result.push(item);
  }
  return [...result, ...sorted.slice(nextIndex)];
}

/** Moves the end of a turn below the text that immediately follows. Some CLIs report `ready` before they send the last text. */
function moveTurnEnds(items: TimelineItem[]): TimelineItem[] {
  const result: TimelineItem[] = [];
  let turnEnd: Extract<TimelineItem, { kind: 'event' }> | null = null;
  for (const item of items) {
    const isLateText: boolean = turnEnd !== null && item.kind === 'text' && item.createdAt - turnEnd.createdAt <= LATE_TEXT_MS;
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
      result[result.length - 1] = {
        ...last,
        text: last.text + item.text,
        images: [...last.images, ...item.images],
        isError: last.isError || item.isError,
        cut: [...(last.cut ?? []), ...(item.cut ?? [])],
      };
    } else {
      result.push(item);
    }
  }
  return result;
}
