/** Shows an agent's text as markdown. */

import './markdown.css';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { TextCache } from '../content/text-cache.ts';
import { fetchMarkdownRenderer, markdownRenderer } from '../state/markdown.ts';
import { copyToClipboard } from '../ui/clipboard.ts';
import { whenIdle } from '../ui/when-idle.ts';

void fetchMarkdownRenderer();

/** Handles the copy buttons of code blocks. */
function onClick({ target }: MouseEvent): void {
  const button = (target as Element).closest('.copy');
  const code = button?.parentElement?.querySelector('pre')?.textContent;
  if (typeof code === 'string') void copyToClipboard(code.trimEnd());
}

async function highlightBlocks(blocks: HTMLElement[]): Promise<void> {
  // If the highlighter cannot be fetched, the code stays plain. A reload could lose attached files.
  const highlighter = await import('../content/highlight.ts').catch(() => null);
  if (highlighter) await Promise.all(blocks.map(highlighter.highlightBlock));
}

/** A growing text is rendered again after this pause. */
const MIN_PAUSE_MS = 100;
/** The pause for people who prefer reduced motion. */
const MIN_PAUSE_REDUCED_MOTION_MS = 1000;
/** The pause is at least this many times as long as the last rendering took: a long text must not slow down the page. */
const PAUSE_PER_RENDER_TIME = 10;

const reducedMotion = matchMedia('(prefers-reduced-motion: reduce)');

const renderedTexts = new TextCache();

/** Renders markdown. A growing text is rendered again only after a pause, and is not cached. */
function useRenderedMarkdown(text: string, isLive: boolean, renderMarkdown: (text: string) => string): { __html: string } {
  const [liveText, setLiveText] = useState(text);
  const nextRender = useRef(0);
  useEffect(() => {
    if (!isLive) return undefined;
    const timer = setTimeout(() => setLiveText(text), nextRender.current - performance.now());
    return () => clearTimeout(timer);
  }, [text, isLive]);
  const shownText = isLive ? liveText : text;
  return useMemo(() => {
    const start = performance.now();
    const render = () => renderMarkdown(shownText);
    const html = { __html: isLive ? render() : renderedTexts.get(shownText, render) };
    const end = performance.now();
    const minPause = reducedMotion.matches ? MIN_PAUSE_REDUCED_MOTION_MS : MIN_PAUSE_MS;
    nextRender.current = end + Math.max(minPause, PAUSE_PER_RENDER_TIME * (end - start));
    return html;
  }, [shownText, isLive]);
}

interface Props {
  text: string;
  /** Whether the text is still growing. */
  isLive?: boolean | undefined;
}

/** Shows a text as markdown, or as plain text until the renderer is fetched. */
export function Markdown({ text, isLive = false }: Props) {
  const renderer = markdownRenderer.value;
  if (renderer === null) return <p class="markdown-source">{text}</p>;
  return <RenderedMarkdown text={text} isLive={isLive} renderMarkdown={renderer.renderMarkdown} />;
}

/** Renders markdown. The code blocks of a complete text are highlighted asynchronously. */
function RenderedMarkdown({ text, isLive, renderMarkdown }: { text: string; isLive: boolean; renderMarkdown: (text: string) => string }) {
  const root = useRef<HTMLDivElement>(null);
  const html = useRenderedMarkdown(text, isLive, renderMarkdown);
  useEffect(() => {
    if (isLive) return undefined;
    const blocks = [...(root.current?.querySelectorAll<HTMLElement>('pre > code[class*="language-"]') ?? [])];
    // The code of the highlighter takes time to start, and the colours change no layout.
    return blocks.length > 0 ? whenIdle(() => void highlightBlocks(blocks)) : undefined;
  }, [html, isLive]);
  return <div class={isLive ? 'markdown live' : 'markdown'} ref={root} onClick={onClick} dangerouslySetInnerHTML={html} />;
}
