/** A conversation as it is shown: messages taken apart, and each tool's call and results in one place. */

import type { Message } from '../api/types.ts';
import type { Outgoing } from '../state/types.ts';
import { parse, type Part } from './parse.ts';

/** A tool's call with what came of it so far. */
export interface ToolItem {
  kind: 'tool';
  key: string;
  name: string;
  input: unknown;
  /** Pieces of output, as far as they have come. */
  output: string;
  state: 'running' | 'done' | 'failed';
  createdAt: number;
}

/** Something of the conversation's column. */
export type Item =
  | ToolItem
  | (Exclude<Part, { kind: 'tool' | 'result' }> & { key: string; createdAt: number })
  | { kind: 'result'; key: string; text: string; isError: boolean; createdAt: number }
  | { kind: 'outgoing'; key: string; outgoing: Outgoing };

const parsed = new WeakMap<Message, Part[]>();

function partsOf(message: Message): Part[] {
  let parts = parsed.get(message);
  if (!parts) parsed.set(message, (parts = parse(message.content)));
  return parts;
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
 * @param messages by seq, ascending
 */
export function timeline(messages: Message[], outgoing: Outgoing[], { active, thinking }: Doing): Item[] {
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
        const tool: ToolItem = { kind: 'tool', key, name, input, output: '', state: name === TODOS ? 'done' : 'running', createdAt };
        tools.set(part.id, tool);
        items.push(tool);
      } else if (part.kind === 'result') {
        const { text, isError } = part;
        const tool = tools.get(part.id);
        // The call of a result may be further up than what is loaded.
        if (tool) answered.add(addResult(tool, text, isError));
        else items.push({ kind: 'result', key, text, isError, createdAt });
      } else {
        // With a turn ends what was running in it.
        settle(part.kind === 'event' && part.name === 'ready' ? tools.values() : answered);
        items.push({ ...part, key, createdAt });
      }
    });
  }
  if (!thinking) settle(active ? answered : tools.values());
  return [...merged(items), ...outgoing.map((one): Item => ({ kind: 'outgoing', key: one.localId, outgoing: one }))];
}

function addResult(tool: ToolItem, text: string, isError: boolean): ToolItem {
  tool.output += text;
  if (isError) tool.state = 'failed';
  return tool;
}

/** Results whose call is not here come in pieces, too: one after another they are one. */
function merged(items: Item[]): Item[] {
  const out: Item[] = [];
  for (const item of items) {
    const last = out.at(-1);
    if (item.kind === 'result' && last?.kind === 'result') {
      out[out.length - 1] = { ...last, text: last.text + item.text, isError: last.isError || item.isError };
    } else {
      out.push(item);
    }
  }
  return out;
}
