/** A conversation as it is shown: messages taken apart, and each tool's call and results in one place. */

import type { CompletedRequest, Message } from '../api/types.ts';
import type { Outgoing } from '../state/types.ts';
import { parse, type Part } from './parse.ts';
import { requestsOf } from './permissions.ts';

/** A tool's call with what came of it so far. */
export interface ToolItem {
  kind: 'tool';
  key: string;
  name: string;
  input: unknown;
  /** Pieces of output, as far as they have come. */
  output: string;
  /** Pictures among the output. */
  images: string[];
  state: 'running' | 'done' | 'failed';
  /** How it was allowed, when somebody was asked. */
  permission?: CompletedRequest;
  createdAt: number;
}

/** Something of the conversation's column. */
export type Item =
  | ToolItem
  | (Exclude<Part, { kind: 'tool' | 'result' }> & { key: string; createdAt: number })
  | { kind: 'result'; key: string; text: string; images: string[]; isError: boolean; createdAt: number }
  | { kind: 'permission'; key: string; request: CompletedRequest; createdAt: number }
  | { kind: 'outgoing'; key: string; outgoing: Outgoing };

const parsed = new WeakMap<Message, Part[]>();

function partsOf(message: Message): Part[] {
  let parts = parsed.get(message);
  if (!parts) parsed.set(message, (parts = takenApart(message.content)));
  return parts;
}

/** A message that cannot be taken apart costs its own place alone. */
function takenApart(content: unknown): Part[] {
  try {
    return parse(content);
  } catch {
    return [{ kind: 'unknown', json: content }];
  }
}

/** What a conversation is made of. */
export interface Said {
  /** By seq, ascending. */
  messages: Message[];
  outgoing: Outgoing[];
  /** There are messages before these. */
  hasOlder: boolean;
  /** What the agent asked and was answered, by the requests' ids. */
  completed?: Record<string, CompletedRequest> | undefined;
}

/** What the agent is doing: it may be gone, be there and wait, or be at work. */
export interface Doing {
  active: boolean;
  thinking: boolean;
}

/** The call that writes the session's todos: nothing comes of it. */
const TODOS = 'TodoWrite';

/**
 * The items of a conversation, oldest first.
 *
 * No record says that a call has ended, and its output may come in many pieces. So a call that has put something out
 * counts as done when the agent goes on to something else, or is not at work.
 */
export function timeline({ messages, outgoing, hasOlder, completed = {} }: Said, { active, thinking }: Doing): Item[] {
  const items: Item[] = [];
  const tools = new Map<string, ToolItem>();
  const answered = new Set<ToolItem>();
  const settle = (some: Iterable<ToolItem>) => {
    for (const tool of some) if (tool.state === 'running') tool.state = 'done';
    answered.clear();
  };
  for (const message of messages) {
    partsOf(message).forEach((part, at) => {
      const key = `${message.id}-${at}`;
      const { createdAt } = message;
      if (part.kind === 'tool') {
        const { name, input } = part;
        settle(answered);
        const tool: ToolItem = { kind: 'tool', key, name, input, output: '', images: [], state: name === TODOS ? 'done' : 'running', createdAt };
        tools.set(part.id, tool);
        items.push(tool);
      } else if (part.kind === 'result') {
        const { text, images, isError } = part;
        const tool = tools.get(part.id);
        // The call of a result may be further up than what is loaded.
        if (tool) answered.add(addResult(tool, part));
        else items.push({ kind: 'result', key, text, images, isError, createdAt });
      } else {
        // With a turn ends what was running in it. What a person says meanwhile ends nothing.
        if (part.kind !== 'user') settle(part.kind === 'event' && part.name === 'ready' ? tools.values() : answered);
        items.push({ ...part, key, createdAt });
      }
    });
  }
  if (!thinking) settle(active ? answered : tools.values());
  const since = hasOlder ? (messages[0]?.createdAt ?? 0) : 0;
  return [
    ...withPermissions(merged(items), allowTools(tools, completed), since),
    ...outgoing.map((one): Item => ({ kind: 'outgoing', key: one.localId, outgoing: one })),
  ];
}

function addResult(tool: ToolItem, { text, images, isError }: Extract<Part, { kind: 'result' }>): ToolItem {
  tool.output += text;
  tool.images.push(...images);
  if (isError) tool.state = 'failed';
  return tool;
}

/** Puts answers to the calls that go by their requests' ids; what is left are those of calls that are not here. */
function allowTools(tools: Map<string, ToolItem>, completed: Record<string, unknown>): [id: string, request: CompletedRequest][] {
  return requestsOf(completed).filter(([id, request]) => {
    const tool = tools.get(id);
    if (!tool) return true;
    tool.permission = request;
    // Nothing comes of what was not allowed.
    if (request.status !== 'approved' && tool.state === 'running') tool.state = 'failed';
    return false;
  });
}

/** Puts answers where they fell in time. Those before `since` belong to messages that are not here yet. */
function withPermissions(items: Item[], requests: [id: string, request: CompletedRequest][], since: number): Item[] {
  const answered = requests
    .map(([id, request]) => ({ kind: 'permission' as const, key: `permission ${id}`, request, createdAt: request.completedAt ?? request.createdAt ?? 0 }))
    .filter(({ createdAt }) => createdAt >= since)
    .sort((a, b) => a.createdAt - b.createdAt);
  const out: Item[] = [];
  let next = 0;
  for (const item of items) {
    for (let one = answered[next]; one && 'createdAt' in item && one.createdAt < item.createdAt; one = answered[next]) {
      out.push(one);
      next += 1;
    }
    out.push(item);
  }
  return [...out, ...answered.slice(next)];
}

/** Results whose call is not here come in pieces, too: one after another they are one. */
function merged(items: Item[]): Item[] {
  const out: Item[] = [];
  for (const item of items) {
    const last = out.at(-1);
    if (item.kind === 'result' && last?.kind === 'result') {
      out[out.length - 1] = { ...last, text: last.text + item.text, images: [...last.images, ...item.images], isError: last.isError || item.isError };
    } else {
      out.push(item);
    }
  }
  return out;
}
