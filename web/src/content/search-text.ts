/** The text in which a search of messages looks. */

import type { Message } from '../api/types.ts';
import { parseExcerpt } from './excerpt.ts';
import { formatJson } from './format-json.ts';
import type { MessagePart } from './message-part.ts';
import { parseMessage } from './parse-message.ts';

/** Returns the parts of a message. A message that cannot be parsed is one unknown part. */
export function messageParts(message: Message): MessagePart[] {
  try {
    return 'content' in message ? parseMessage(message.content) : parseExcerpt(message.excerpt as [string, string], message.contentBytes);
  } catch {
    return 'content' in message ? [{ kind: 'unknown', json: message.content }] : [];
  }
}

function partText(part: MessagePart): string {
  switch (part.kind) {
    case 'user':
      return [part.text, ...part.attachments.map(({ filename }) => filename)].join('\n');
    case 'text':
    case 'thinking':
    case 'result':
    case 'error':
      return part.text;
    case 'tool':
      return `${part.name}\n${inputText(part.input)}`;
    case 'plan':
      return part.todos.map(({ content }) => content).join('\n');
    case 'event':
      return part.name === 'ready' ? '' : (part.text ?? '');
    case 'queue':
      return part.text ?? '';
    case 'unknown':
      return formatJson(part.json);
    case 'image':
    case 'large':
      return '';
  }
}

/** The strings of a call's input. Their JSON would have escape sequences that the user does not see. */
function inputText(input: unknown): string {
  if (typeof input === 'string') return input;
  if (typeof input !== 'object' || input === null) return '';
  return Object.values(input)
    .map((value) => (typeof value === 'string' ? value : formatJson(value)))
    .join('\n');
}

/** Whether a message contains a text, without regard to case. */
export function containsText(message: Message, text: string): boolean {
  const searched = text.toLowerCase();
  return messageParts(message).some((part) => partText(part).toLowerCase().includes(searched));
}
