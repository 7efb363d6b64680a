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

/**
 * The items of a conversation, oldest first.
 * @param messages by seq, ascending
 * @param isBusy whether the agent may still be at work: without it, a tool without a result is not running any more
 */
export function timeline(messages: Message[], outgoing: Outgoing[], isBusy: boolean): Item[] {
  const items: Item[] = [];
  const tools = new Map<string, ToolItem>();
  for (const message of messages) {
    partsOf(message).forEach((part, at) => {
      const key = `${message.id}-${at}`;
      const { createdAt } = message;
      if (part.kind === 'tool') {
        const { name, input } = part;
        const tool: ToolItem = { kind: 'tool', key, name, input, output: '', state: 'running', createdAt };
        tools.set(part.id, tool);
        items.push(tool);
      } else if (part.kind === 'result') {
        const { text, isError } = part;
        const tool = tools.get(part.id);
        // The call of a result may be further up than what is loaded.
        if (tool) addResult(tool, text, isError);
        else items.push({ kind: 'result', key, text, isError, createdAt });
      } else {
        // A turn has ended: so has what was running in it.
        if (part.kind === 'event' && part.name === 'ready') settle(tools);
        items.push({ ...part, key, createdAt });
      }
    });
  }
  if (!isBusy) settle(tools);
  return [...merged(items), ...outgoing.map((one): Item => ({ kind: 'outgoing', key: one.localId, outgoing: one }))];
}

function addResult(tool: ToolItem, text: string, isError: boolean): void {
  tool.output += text;
  if (isError) tool.state = 'failed';
}

function settle(tools: Map<string, ToolItem>): void {
  for (const tool of tools.values()) if (tool.state === 'running') tool.state = 'done';
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
