/**
 * Markdown as HTML that is safe to show. An agent repeats what it read anywhere, so its text may be made to harm: what
 * comes out holds nothing but {@link TAGS} and {@link ATTRIBUTES}, and takes a bounded time however the text is made.
 */

import DOMPurify from 'dompurify';
import { Lexer, Marked, type Token, type TokensList } from 'marked';

/** A text of more characters, pictures in it not counted, is no markdown any more: it is shown as it was written. */
const MAX_LENGTH = 100_000;
/** So deep lists and quotations go into each other; what is deeper is plain text. */
const MAX_DEPTH = 24;
/**
 * What a text may cost: the sum of the squares of the lengths of its paragraphs and what stands in them, as some rules of
 * markdown take a time that grows with the square. One paragraph of 8,000 characters, or 250 of 500.
 */
const MAX_COST = 64_000_000;
/** So many elements a text may become: a page takes its time for each. What comes after them is shown as it was written. */
const MAX_ELEMENTS = 5000;
/** So many tags of HTML a text may have; what comes after them is shown as it was written. */
const MAX_TAGS = 500;

const marked = new Marked({
  gfm: true,
  breaks: true,
  // A box that cannot be ticked needs no field; `fit` gives it its name.
  renderer: { checkbox: ({ checked }) => `${checked ? DONE : TO_DO} ` },
});

const DONE = '☑';
const TO_DO = '☐';

/** What markdown makes, and what people write as HTML in it. */
const TAGS = [
  ...['a', 'abbr', 'b', 'br', 'code', 'del', 'em', 'i', 'img', 'ins', 'kbd', 'mark', 'q', 's', 'samp', 'small', 'span', 'strong', 'sub', 'sup', 'u', 'var'],
  ...['blockquote', 'dd', 'details', 'div', 'dl', 'dt', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'li', 'ol', 'p', 'pre', 'summary', 'ul'],
  ...['caption', 'table', 'tbody', 'td', 'tfoot', 'th', 'thead', 'tr'],
];
const ATTRIBUTES = ['align', 'alt', 'class', 'colspan', 'href', 'lang', 'open', 'rowspan', 'src', 'start', 'title'];

const RULES = { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ATTRIBUTES, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true } as const;

/** A page that nothing is loaded for: what is put together there does nothing. */
const inert = document.implementation.createHTMLDocument('');

/** Takes markdown apart, up to a depth and a cost; what is beyond them is plain text. */
class BoundedLexer extends Lexer {
  #depth = 0;
  #cost = 0;

  override blockTokens(source: string, tokens?: Token[], isClipped?: boolean): Token[];
  override blockTokens(source: string, tokens?: TokensList, isClipped?: boolean): TokensList;
  override blockTokens(source: string, tokens: Token[] = [], isClipped?: boolean): Token[] {
    if (this.#depth < MAX_DEPTH) return this.#deeper(() => super.blockTokens(source, tokens, isClipped));
    tokens.push({ type: 'paragraph', raw: source, text: source, tokens: plain(source) });
    return tokens;
  }

  override inlineTokens(source: string, tokens: Token[] = []): Token[] {
    this.#cost += source.length ** 2;
    if (this.#cost > MAX_COST || this.#depth >= MAX_DEPTH) {
      for (const token of plain(source)) tokens.push(token);
      return tokens;
    }
    return this.#deeper(() => super.inlineTokens(source, tokens));
  }

  #deeper<T>(work: () => T): T {
    this.#depth += 1;
    try {
      return work();
    } finally {
      this.#depth -= 1;
    }
  }
}

/** A text as it was written, line by line. */
function plain(text: string): Token[] {
  return text.split('\n').flatMap((line, at): Token[] => {
    const words = { type: 'text', raw: line, text: line, escaped: false };
    return at === 0 ? [words] : [{ type: 'br', raw: '\n' }, words];
  });
}

const PICTURE = /data:image\/[\w.+-]+;base64,[A-Za-z0-9+/=]{200,}/g;
const HELD = /data:image\/held,(\d+)/g;

/** Whether a text is too long to be read as markdown. */
export function isTooLong(text: string): boolean {
  return text.length > MAX_LENGTH && text.replace(PICTURE, '').length > MAX_LENGTH;
}

/** HTML that is safe to show; none of a text that {@link isTooLong}. */
export function html(text: string): string {
  if (isTooLong(text)) return '';
  // Pictures are long and have no markdown in them: they are held back while the text is taken apart.
  const pictures: string[] = [];
  const short = text.replace(PICTURE, (picture) => `data:image/held,${pictures.push(picture) - 1}`);
  const place = inert.createElement('div');
  place.append(cleaned(short));
  fit(place);
  // A picture's letters are none that HTML knows.
  return place.innerHTML.replace(HELD, (held, at: string) => pictures[Number(at)] ?? held);
}

/** The first words of a markdown text, about as many characters as asked for, for those who hear them. */
export function wordsOf(text: string, length: number): string {
  // Signs and addresses are not said: of three times as many characters enough is left.
  return (cleaned(text.slice(0, length * 3)).textContent ?? '').trim().slice(0, length);
}

function cleaned(text: string): DocumentFragment {
  const tokens = bounded(new BoundedLexer(marked.defaults).lex(text));
  let tags = 0;
  marked.walkTokens(tokens, (token) => {
    if (token.type !== 'html') return;
    tags += token.raw.split('<').length - 1;
    if (tags > MAX_TAGS) Object.assign(token, { type: 'text', text: token.raw, escaped: false });
  });
  return DOMPurify.sanitize(marked.parser(tokens), RULES);
}

/** Blocks of markdown as long as they are not too many elements; the others as one block, as they were written. */
function bounded(blocks: Token[]): Token[] {
  let elements = 0;
  const end = blocks.findIndex((block) => (elements += elementsOf(block)) > MAX_ELEMENTS);
  if (end < 0) return blocks;
  const raw = blocks.slice(end).map((block) => block.raw).join('');
  return [...blocks.slice(0, end), { type: 'code', raw, text: raw }];
}

/** Those that are text, or that nothing is made of. HTML is bounded by its tags. */
const NO_ELEMENT = new Set(['text', 'escape', 'space', 'def', 'html']);

/** How many elements become of a token, those that {@link fit} adds among them. */
function elementsOf(token: Token): number {
  if (token.type === 'code') return 4;
  const { tokens = [], items = [], header = [], rows = [] } = token as { tokens?: Token[]; items?: Token[]; header?: Cell[]; rows?: Cell[][] };
  const cells = [header, ...rows].flatMap((row) => [...row, { tokens: [] }]);
  const inner = [...tokens, ...items, ...cells.flatMap((cell) => cell.tokens)];
  return (NO_ELEMENT.has(token.type) ? 0 : 1) + (token.type === 'table' ? 3 + cells.length : 0) + inner.reduce((sum, one) => sum + elementsOf(one), 0);
}

/** A cell of a table, or the row that it stands in. */
interface Cell {
  tokens: Token[];
}

/** Makes what was cleaned fit the page. */
function fit(place: HTMLElement): void {
  // The page's own classes are not for agents: with them they could draw what looks like a part of it.
  for (const element of place.querySelectorAll('[class]')) {
    const language = element.tagName === 'CODE' ? [...element.classList].find((name) => name.startsWith('language-')) : undefined;
    if (language === undefined) element.removeAttribute('class');
    else element.className = language;
  }
  // The page loads nothing from elsewhere: a picture there can be opened by its name.
  for (const image of place.querySelectorAll('img')) {
    const address = image.getAttribute('src') ?? '';
    if (!address.startsWith('data:')) image.replaceWith(/^https?:/.test(address) ? linkTo(address, image.alt || address) : image.alt || address);
  }
  for (const link of place.querySelectorAll('a')) {
    link.target = '_blank';
    link.rel = 'noopener noreferrer';
    // Words may name another place than the one they lead to.
    link.title = link.getAttribute('href') ?? '';
  }
  for (const item of place.querySelectorAll('li')) nameBox(item);
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

/** Says of the box that an item begins with what it means. */
function nameBox(item: HTMLLIElement): void {
  const first = item.firstElementChild?.tagName === 'P' && item.firstChild === item.firstElementChild ? item.firstElementChild : item;
  const words = first.firstChild;
  const sign = words?.textContent?.[0];
  if (words?.nodeType !== Node.TEXT_NODE || (sign !== DONE && sign !== TO_DO)) return;
  const box = inert.createElement('span');
  box.className = 'task';
  box.textContent = sign;
  box.setAttribute('role', 'img');
  box.setAttribute('aria-label', sign === DONE ? 'done' : 'to do');
  words.textContent = words.textContent?.slice(1) ?? '';
  first.prepend(box);
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
