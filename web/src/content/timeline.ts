/** Builds the items of a conversation: message parts in order, with the results of a tool call attached to the call. */

import type { CompletedRequest, Message } from '../api/types.ts';
import { type CutMessage, parseExcerpt } from './excerpt.ts';
import type { MessagePart, QueueChange } from './message-part.ts';
import { parseMessage } from './parse-message.ts';
import { validRequests } from './permissions.ts';
import { TextParts, toTextItem } from './text-parts.ts';
import { addSeq, partKey, recordReplacement, type TimelineItem, type ToolItem, type UserItem } from './timeline-item.ts';
import { Calls, TodoLists } from './tool-calls.ts';
import type { LiveText, OutgoingMessage } from './unstored-messages.ts';

/** The key of a message's parts. */
const PARTS = Symbol('parts');

/**
 * Parses a message once, and keeps the parts in the message object. The entries of a `WeakMap` would lengthen each garbage collection, which is
 * visible while scrolling.
 */
function getParts(message: Message & { [PARTS]?: MessagePart[] }): MessagePart[] {
  const cachedParts = message[PARTS];
  if (cachedParts) return cachedParts;
  const parts =
    'content' in message ? parseOrUnknown(message.content) : parseExcerpt(message.excerpt as [string, string], message.contentBytes);
  // Not enumerable, so a changed copy of the message does not have the earlier parts.
  Object.defineProperty(message, PARTS, { value: parts });
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
  /** Whether the hub has newer messages. */
  hasNewer?: boolean;
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
  /** Whether the browser has stored the activity earlier: a call without a result may have waited, and may have ended since. */
  isStored?: boolean;
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
  { messages, outgoing, live = [], hasOlder, hasNewer = false, requests = {}, completed = {}, queued }: TimelineInput,
  { active, thinking, isStored }: AgentActivity,
): TimelineItem[] {
  const items: TimelineItem[] = [];
  const calls = new Calls();
  const texts = new TextParts();
  const userItems = new Map<string, UserItem>();
  const todoLists = new TodoLists();
  /** Adds an item for the call of a sub-agent whose message is not loaded. */
  const addUnloadedCall = (id: string, { createdAt, seq }: Message) => {
    const key = `subagent ${id}`;
    const tool: ToolItem = { kind: 'tool', name: 'Sub-agent', input: null, output: '', images: [], state: 'running', key, createdAt, seq };
    calls.add(id, tool, undefined);
    items.push(tool);
    return tool;
  };
  for (const message of messages) {
    getParts(message).forEach((part, index, parts) => {
      const isCut = !('content' in message) && index === parts.length - 1;
      const cut = isCut ? { cut: [{ seq: message.seq, bytes: message.contentBytes, isImage: 'isImage' in part }] } : {};
      const key = partKey(message.localId ?? message.id, index);
      const { createdAt, seq } = message;
      const common = { key, createdAt, seq, ...cut };
      const parent = part.parentId === undefined ? undefined : (calls.byId.get(part.parentId) ?? addUnloadedCall(part.parentId, message));
      const siblings = parent ? (parent.children ??= []) : items;
      const add = (item: TimelineItem) => {
        siblings.push(item);
        calls.addSeq(parent, seq);
      };
      if (part.kind === 'user' && !(Array.isArray(queued) && queued.includes(seq))) todoLists.startTurn();
      if (part.kind === 'tool') {
        const { name, input } = part;
        calls.endWithOutput(parent);
        const list = name === TODO_TOOL ? todoLists.find(siblings, 'tool') : undefined;
        const state = name === TODO_TOOL ? 'done' : 'running';
        const tool: ToolItem = list ?? { kind: 'tool', name, input, output: '', images: [], state, ...common };
        calls.add(part.id, tool, parent);
        if (list) {
          Object.assign(list, { input, state });
          recordReplacement(list, seq, cut.cut);
          calls.addSeq(parent, seq);
        } else add(tool);
        if (name === TODO_TOOL) todoLists.set(siblings, tool);
      } else if (part.kind === 'result') {
        const { text, images, isError } = part;
        const tool = calls.byId.get(part.id);
        // The message with the call may not be loaded.
        if (tool) {
          appendResult(tool, part, cut.cut);
          calls.addSeq(tool, seq);
          calls.addOutput(tool);
          if (part.isFinal) calls.end([tool]);
        } else add({ kind: 'result', text, images, isError, ...common });
      } else {
        // The end of a turn also ends calls without output. A message of the user ends no call.
        if (part.kind === 'event' && part.name === 'ready') calls.end(calls.byId.values());
        else if (part.kind !== 'user' && part.kind !== 'queue') calls.endWithOutput(parent);
        if (part.kind === 'text' || part.kind === 'thinking') {
          const item = texts.add(index === 0 ? message.localId : null, { kind: part.kind, text: part.text, ...common }, part.continuedBy);
          if (item) add(item);
          else calls.addSeq(parent, seq);
        } else if (part.kind === 'plan') {
          const list = todoLists.find(siblings, 'plan');
          if (list) {
            list.todos = part.todos;
            recordReplacement(list, seq, cut.cut);
            calls.addSeq(parent, seq);
          } else {
            const plan = { ...part, ...common };
            add(plan);
            todoLists.set(siblings, plan);
          }
        } else if (part.kind === 'user') {
          const item = { ...part, ...common, isQueued: Array.isArray(queued) && queued.includes(seq) };
          userItems.set(message.id, item);
          add(item);
        } else if (part.kind === 'queue') {
          const isShown = part.changes.map((change) => applyQueueChange(items, userItems, change, { key, createdAt, seq }));
          if (part.text !== undefined && isShown.includes(false))
            items.push({ kind: 'event', name: 'message', text: part.text, key, createdAt, seq });
        } else add({ ...part, ...common });
      }
    });
  }
  const isWriting = active && live.some(({ pieces }) => pieces.some(({ text }) => text.trim() !== ''));
  if (!thinking || isWriting) calls.end(active ? [...calls.withOutput] : calls.byId.values());
  const unstored = active ? live.flatMap((text) => texts.add(text.id, toTextItem(text)) ?? []) : [];
  if (active && thinking) texts.markLive(items.findLast(({ kind }) => kind !== 'user'));
  markWaiting(calls.byId, requests);
  calls.markCallsOfSubAgents();
  if (isStored) calls.forget();
  const since = hasOlder ? (messages[0]?.createdAt ?? 0) : 0;
  const until = hasNewer ? (messages.at(-1)?.createdAt ?? 0) : Infinity;
  const waits = (item: TimelineItem) => item.kind === 'user' && item.isQueued;
  const handled = items.filter((item) => !waits(item));
  return [
    ...insertRequests(mergeResults(moveTurnEnds(handled)), attachRequests(calls.byId, completed), since, until),
    ...unstored.filter(({ text }) => text.trim() !== ''),
    ...items.filter(waits),
    ...outgoing.map((message): TimelineItem => ({ kind: 'outgoing', key: message.localId, outgoing: message })),
  ];
}

/**
 * Shows a change of the queue at its message. A message that the agent has received moves to the place where the agent received it.
 * Returns false if nothing shows the change, because the message is not loaded.
 */
function applyQueueChange(
  items: TimelineItem[],
  userItems: ReadonlyMap<string, UserItem>,
  { id, change, text }: QueueChange,
  record: { key: string; createdAt: number; seq: number },
): boolean {
  const user = userItems.get(id);
  if (!user) {
    if (text !== undefined)
      items.push({ kind: 'user', text, attachments: [], from: undefined, isQueued: false, outcome: 'edited', ...record });
    return text !== undefined;
  }
  if (change === 'canceled') {
    user.outcome = 'canceled';
    return true;
  }
  if (text !== undefined) {
    Object.assign(user, { text, outcome: 'edited' });
    // `cut` belongs to the text that was replaced.
    delete user.cut;
  }
  if (user.seq !== undefined) addSeq(user, user.seq);
  Object.assign(user, { createdAt: record.createdAt, seq: record.seq });
  items.splice(items.indexOf(user), 1);
  items.push(user);
  return true;
}

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

/** Inserts completed requests by time. Requests before `since` or after `until` belong to messages that are not loaded. */
function insertRequests(
  items: TimelineItem[],
  requests: [id: string, request: CompletedRequest][],
  since: number,
  until: number,
): TimelineItem[] {
  const sorted = requests
    .map(([id, request]) => ({
      kind: 'permission' as const,
      key: `permission ${id}`,
      request,
      createdAt: request.completedAt ?? request.createdAt ?? 0,
    }))
    .filter(({ createdAt }) => createdAt >= since && createdAt <= until)
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
        moreSeqs: [...(last.moreSeqs ?? []), ...(item.seq === undefined ? [] : [item.seq])],
      };
    } else {
      result.push(item);
    }
  }
  return result;
}
