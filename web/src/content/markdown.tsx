/** Shows an agent's text as markdown. */

import './markdown.css';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { copyToClipboard } from '../ui/clipboard.ts';
import { renderMarkdown } from './render-markdown.ts';

/** Handles the copy buttons of code blocks. */
function onClick({ target }: MouseEvent): void {
  const button = (target as Element).closest('.copy');
  const code = button?.parentElement?.querySelector('pre')?.textContent;
  if (typeof code === 'string') void copyToClipboard(code.trimEnd());
}

async function highlightBlocks(blocks: HTMLElement[]): Promise<void> {
  // If the highlighter cannot be fetched, the code stays plain. A reload could lose attached files.
  const highlighter = await import('./highlight.ts').catch(() => null);
  if (highlighter) await Promise.all(blocks.map(highlighter.highlightBlock));
}

/** Renders markdown. Its code blocks are highlighted asynchronously. */
export function Markdown({ text }: { text: string }) {
  const root = useRef<HTMLDivElement>(null);
  const html = useMemo(() => ({ __html: renderMarkdown(text) }), [text]);
  useEffect(() => {
    const blocks = [...(root.current?.querySelectorAll<HTMLElement>('pre > code[class*="language-"]') ?? [])];
    if (blocks.length > 0) void highlightBlocks(blocks);
  }, [html]);
  return <div class="markdown" ref={root} onClick={onClick} dangerouslySetInnerHTML={html} />;
}
