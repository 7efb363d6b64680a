/** Exports all messages of a session into a file. */

import type { Session } from '../api/types.ts';
import { writeMarkdown } from '../content/export-session.ts';
import { fetchNewestSeq, readAll } from './history.ts';
import { sessionTitle } from './sessions.ts';

export type ExportFormat = 'md' | 'json';

const TYPES = { md: 'text/markdown', json: 'application/json' };

/** A title in one line of Markdown. */
const heading = (title: string) => `# ${title.replace(/\s+/g, ' ')}\n\n`;

/**
 * Reads all messages and returns the file. Keeps one page of messages at a time; the browser stores the written parts outside of the
 * page's heap.
 * @param onProgress receives how many messages are written, and how many there are
 * @throws {HubError} if a page cannot be fetched
 */
export async function exportSession(
  session: Session,
  format: ExportFormat,
  signal: AbortSignal,
  onProgress: (written: number, total: number) => void,
): Promise<Blob> {
  const { id, metadata, createdAt } = session;
  const title = sessionTitle(session);
  const total = await fetchNewestSeq(id, signal);
  onProgress(0, total);
  const about = { id, title, path: metadata?.path, host: metadata?.host, createdAt, exportedAt: Date.now() };
  const place = metadata ? `${metadata.path} on ${metadata.host}\n\n` : '';
  const parts: Blob[] = [new Blob([format === 'md' ? heading(title) + place : `{"session":${JSON.stringify(about)},"messages":[`])];
  let isFirst = true;
  let written = 0;
  for await (const page of readAll(id, signal)) {
    const texts = page.map((message) => {
      if (format === 'md') return writeMarkdown(message);
      const separator = isFirst ? '\n' : ',\n';
      isFirst = false;
      return separator + JSON.stringify(message);
    });
    parts.push(new Blob(texts));
    written += page.length;
    onProgress(written, Math.max(total, written));
  }
  if (format === 'json') parts.push(new Blob(['\n]}\n']));
  return new Blob(parts, { type: TYPES[format] });
}
