/** Text of an agent as markdown. What comes out of it is cleaned: an agent repeats what it read anywhere. */

import './markdown.css';
import DOMPurify from 'dompurify';
import { Marked } from 'marked';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { copy } from '../ui/copy.ts';

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    // A box that cannot be ticked needs no field.
    checkbox: ({ checked }) => `<span class="task" role="img" aria-label="${checked ? 'done' : 'to do'}">${checked ? '☑' : '☐'}</span> `,
  },
});

const RULES = {
  USE_PROFILES: { html: true },
  FORBID_TAGS: ['style', 'form', 'input', 'button', 'textarea', 'select', 'video', 'audio', 'iframe'],
  FORBID_ATTR: ['style', 'id', 'name'],
  ALLOW_DATA_ATTR: false,
};

/** A page that nothing is loaded for: what is put together there does nothing. */
const inert = document.implementation.createHTMLDocument('');

/** HTML that is safe to show. */
function html(text: string): string {
  const place = inert.createElement('div');
  place.append(DOMPurify.sanitize(marked.parse(text, { async: false }), { ...RULES, RETURN_DOM_FRAGMENT: true }));
  fit(place);
  return place.innerHTML;
}

/** The words of a markdown text, for those who hear it. */
export function wordsOf(text: string): string {
  return DOMPurify.sanitize(marked.parse(text, { async: false }), { ...RULES, RETURN_DOM_FRAGMENT: true }).textContent ?? '';
}

/** Makes what was cleaned fit the page. */
function fit(place: HTMLElement): void {
  // The page's own classes are not for agents: with them they could draw what looks like a part of it.
  for (const element of place.querySelectorAll('[class]')) {
    element.className = [...element.classList].filter((name) => name === 'task' || name.startsWith('language-')).join(' ');
  }
  // The page loads nothing from elsewhere: a picture there can be opened by its name.
  for (const image of place.querySelectorAll('img')) {
    const address = image.getAttribute('src') ?? '';
    if (!address.startsWith('data:')) image.replaceWith(/^https?:/.test(address) ? linkTo(address, image.alt || address) : image.alt || address);
  }
  for (const link of place.querySelectorAll('a')) {
    link.target = '_blank';
    link.rel = 'noopener noreferrer';
  }
  // Each paragraph runs in the direction of its own language; code runs from left to right.
  for (const block of place.children) block.setAttribute('dir', block.tagName === 'PRE' ? 'ltr' : 'auto');
  // What is wider than the page is scrolled, also by keyboard.
  for (const table of place.querySelectorAll('table')) wrap(table, 'table-place').tabIndex = 0;
  for (const pre of place.querySelectorAll('pre')) {
    pre.tabIndex = 0;
    wrap(pre, 'code-place').append(copyButton());
  }
}

function linkTo(address: string, text: string): HTMLElement {
  const link = inert.createElement('a');
  link.href = address;
  link.textContent = text;
  return link;
}

function wrap(inner: Element, name: string): HTMLElement {
  const place = inert.createElement('div');
  place.className = name;
  inner.before(place);
  place.append(inner);
  return place;
}

function copyButton(): HTMLElement {
  const button = inert.createElement('button');
  button.type = 'button';
  button.className = 'copy';
  button.textContent = 'Copy';
  button.setAttribute('aria-label', 'Copy the code');
  return button;
}

/** Copies the code that a button stands with. */
function onClick({ target }: MouseEvent): void {
  const button = (target as Element).closest('.copy');
  const code = button?.parentElement?.querySelector('pre')?.textContent;
  if (typeof code === 'string') void copy(code.trimEnd());
}

/** Markdown, with its code coloured a moment later. */
export function Markdown({ text }: { text: string }) {
  const root = useRef<HTMLDivElement>(null);
  const shown = useMemo(() => ({ __html: html(text) }), [text]);
  useEffect(() => {
    const blocks = [...(root.current?.querySelectorAll<HTMLElement>('pre > code[class*="language-"]') ?? [])];
    if (blocks.length > 0) void import('./highlight.ts').then(({ highlightBlock }) => Promise.all(blocks.map(highlightBlock)));
  }, [shown]);
  // It was cleaned above.
  return <div class="markdown" ref={root} onClick={onClick} dangerouslySetInnerHTML={shown} />;
}
