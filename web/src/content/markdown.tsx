/** Text of an agent as markdown. What comes out of it is cleaned: an agent repeats what it read anywhere. */

import './markdown.css';
import DOMPurify from 'dompurify';
import { Marked } from 'marked';
import { useEffect, useMemo, useRef } from 'preact/hooks';

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    // A box that cannot be ticked needs no field.
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
  },
});

const RULES = {
  USE_PROFILES: { html: true },
  FORBID_TAGS: ['style', 'form', 'input', 'button', 'textarea', 'select', 'video', 'audio', 'iframe'],
  FORBID_ATTR: ['style', 'id', 'name'],
};

/** HTML that is safe to show. */
function html(text: string): string {
  return DOMPurify.sanitize(marked.parse(text, { async: false }), RULES);
}

/** Markdown, with its code coloured a moment later. */
export function Markdown({ text }: { text: string }) {
  const root = useRef<HTMLDivElement>(null);
  const shown = useMemo(() => ({ __html: html(text) }), [text]);
  useEffect(() => {
    const element = root.current;
    if (!element) return;
    for (const link of element.querySelectorAll('a')) {
      link.target = '_blank';
      link.rel = 'noopener noreferrer';
    }
    // What is wider than the page is scrolled, also by keyboard.
    for (const wide of element.querySelectorAll<HTMLElement>('pre, table')) wide.tabIndex = 0;
    const blocks = [...element.querySelectorAll<HTMLElement>('pre > code[class*="language-"]')];
    if (blocks.length > 0) void import('./highlight.ts').then(({ highlightBlock }) => Promise.all(blocks.map(highlightBlock)));
  }, [shown]);
  // biome-ignore lint/security/noDangerouslySetInnerHtml: it was cleaned
  return <div class="markdown" ref={root} dangerouslySetInnerHTML={shown} />;
}
