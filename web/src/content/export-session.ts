/** Writes the messages of a session as Markdown, for the export. */

import type { Message } from '../api/types.ts';
import { formatSize } from './file-size.ts';
import { formatJson } from './format-json.ts';
import type { MessagePart } from './message-part.ts';
import { messageParts } from './search-text.ts';
import { terminalText } from './terminal-text.ts';
import { summarizeInput, toolTitle } from './tool-summary.ts';

const STATUS_MARKS = { pending: ' ', in_progress: '-', completed: 'x' };

/** Encloses a text in a fence that is longer than any fence in the text. */
function fence(text: string, language = ''): string {
  const longest = Math.max(2, ...(text.match(/`{3,}/g) ?? []).map(({ length }) => length));
  const mark = '`'.repeat(longest + 1);
  return `${mark}${language}\n${text}\n${mark}`;
}

/** Quotes a text, so that its headings and lists do not look like headings and lists of the export. */
const quote = (text: string): string => text.replace(/^/gm, '> ');

/** Makes a text safe for one line of Markdown. */
const inlineCode = (text: string): string => `\`${text.replace(/`/g, "'").replace(/\s+/g, ' ')}\``;

function writePart(part: MessagePart, time: string): string {
  switch (part.kind) {
    case 'user': {
      const files = part.attachments.map(({ filename, size }) => `- ${inlineCode(filename)} (${formatSize(size)})`);
      return [`## You · ${time}`, part.text, files.join('\n')].filter((text) => text !== '').join('\n\n');
    }
    case 'text':
      return part.text;
    case 'thinking':
      return `*Thinking*\n\n${quote(part.text)}`;
    case 'tool':
      return `**${toolTitle(part.name, part.input)}** ${inlineCode(summarizeInput(part.input))}\n\n${fence(formatJson(part.input), 'json')}`;
    case 'result': {
      const text = terminalText(part.text);
      const images = part.images.length > 0 ? `[${part.images.length} images]` : '';
      return [part.isError ? '*Failed:*' : '', text === '' ? '' : fence(text), images].filter((line) => line !== '').join('\n\n');
    }
    case 'image':
      return '[image]';
    case 'plan':
      return part.todos.map(({ status, content }) => `- [${STATUS_MARKS[status]}] ${content}`).join('\n');
    case 'event':
      return part.name === 'ready' ? '' : `*${part.name.replaceAll('_', ' ')}${part.text === undefined ? '' : `: ${part.text}`}*`;
    case 'queue':
      return part.text === undefined ? '' : `*${part.text}*`;
    case 'error':
      return `**Error:** ${part.text}`;
    case 'large':
      return '[a large message]';
    case 'unknown':
      return fence(formatJson(part.json), 'json');
  }
}

/** Writes a message as Markdown, with an empty line at the end; empty for a message that the console does not show. */
export function writeMarkdown(message: Message): string {
  const time = new Date(message.createdAt).toISOString().slice(0, 16).replace('T', ' ');
  return messageParts(message)
    .map((part) => writePart(part, `${time} UTC`))
    .filter((text) => text.trim() !== '')
    .map((text) => `${text}\n\n`)
    .join('');
}

/** Limit on the title in a file name, in characters. */
const MAX_TITLE_LENGTH = 60;

/** Returns a file name with the title and the date of a session, without characters that file systems reject. */
export function exportFileName(title: string, date: Date, extension: 'md' | 'json'): string {
  const name = title
    .replace(/[^\p{Letter}\p{Number}\p{Mark}]+/gu, '-')
    .slice(0, MAX_TITLE_LENGTH)
    .replace(/^-+|-+$|[\ud800-\udbff]$/g, '');
  const [year, month, day] = [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, '0'));
  return `${name || 'session'}-${year}-${month}-${day}.${extension}`;
}
