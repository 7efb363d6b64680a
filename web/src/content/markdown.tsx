/** Text of an agent as markdown. */

import './markdown.css';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { copy } from '../ui/copy.ts';
import { html } from './markup.ts';

/** Copies the code that a button stands with. */
function onClick({ target }: MouseEvent): void {
  const button = (target as Element).closest('.copy');
  const code = button?.parentElement?.querySelector('pre')?.textContent;
  if (typeof code === 'string') void copy(code.trimEnd());
}

async function highlightBlocks(blocks: HTMLElement[]): Promise<void> {
  // Without the highlighter the code stays plain: no reason to reload the page that somebody writes in.
  const highlighter = await import('./highlight.ts').catch(() => null);
  if (highlighter) await Promise.all(blocks.map(highlighter.highlightBlock));
}

/** Markdown, with its code coloured a moment later. */
export function Markdown({ text }: { text: string }) {
  const root = useRef<HTMLDivElement>(null);
  const shown = useMemo(() => ({ __html: html(text) }), [text]);
  useEffect(() => {
    const blocks = [...(root.current?.querySelectorAll<HTMLElement>('pre > code[class*="language-"]') ?? [])];
    if (blocks.length > 0) void highlightBlocks(blocks);
  }, [shown]);
  return <div class="markdown" ref={root} onClick={onClick} dangerouslySetInnerHTML={shown} />;
}
