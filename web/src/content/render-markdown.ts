/**
 * Renders markdown as safe HTML. The text may be hostile, because agents repeat text from any source. HTML in the text is shown as
 * text, so that nothing that an agent wrote is lost. The result contains only {@link ALLOWED_TAGS} and {@link ALLOWED_ATTRIBUTES}.
 * Limits bound the time for parsing and layout; text that exceeds a limit is shown as plain text.
 */

import DOMPurify from 'dompurify';
import { Lexer, Marked, type Token, type Tokenizer, type Tokens, type TokensList } from 'marked';
import { CJK_RULES } from './cjk-markdown.ts';
import { childrenOf, hasLabel, LOSSLESS_RULES, plainTokens, showHiddenText } from './lossless-markdown.ts';
import { EMBEDDED_IMAGE, isTooLongForMarkdown } from './markdown-length.ts';

/** Limit on nested lists and quotations. */
const MAX_DEPTH = 24;
/**
 * Limit on the sum of the squared lengths of all inline texts, because some inline rules take quadratic time. The limit allows one paragraph
 * of 8,000 characters, or 250 paragraphs of 500 characters.
 */
const MAX_COST = 64_000_000;
/**
 * Limit on the sum of the lengths that the parser searches in vain for the end of an emphasis: each mark may search the rest of its text.
 */
const MAX_EMPHASIS_COST = 1_000_000;
/** Limit on lines that look like the start of a table and are none: for each, the parser searches the end of the table. After that, such lines are plain text up to a blank line. */
const MAX_FAILED_TABLES = 100;
/** Limit on HTML elements in the result. */
const MAX_ELEMENTS = 5000;
/** Limit on parsed texts. A list item has two, its block and its line, for one element: the elements exceed their limit first. */
const MAX_TEXTS = 2 * MAX_ELEMENTS;

const CHECKED = '☑';
const UNCHECKED = '☐';

const marked = new Marked(LOSSLESS_RULES, CJK_RULES, {
  gfm: true,
  breaks: true,
  // A character instead of a disabled input. `labelCheckbox` adds the accessible name of the character.
  renderer: { checkbox: ({ checked }) => `${checked ? CHECKED : UNCHECKED} ` },
});

/** The elements of markdown. */
const ALLOWED_TAGS = [
  ...[
    'a',
    'blockquote',
    'br',
    'code',
    'del',
    'em',
    'h1',
    'h2',
    'h3',
    'h4',
    'h5',
    'h6',
    'hr',
    'img',
    'li',
    'ol',
    'p',
    'pre',
    'strong',
    'ul',
  ],
  ...['table', 'tbody', 'td', 'th', 'thead', 'tr'],
];
/** `class` is the language of a code block. */
const ALLOWED_ATTRIBUTES = ['align', 'alt', 'class', 'href', 'src', 'start', 'title'];

const SANITIZE_OPTIONS = {
  ALLOWED_TAGS,
  ALLOWED_ATTR: ALLOWED_ATTRIBUTES,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
} as const;

/** A document that loads no resources and runs no scripts. */
const inertDocument = document.implementation.createHTMLDocument('');

/** The end of a paragraph in a list. */
const PARAGRAPH_END = /\n(?=\s*\n|\s*(?:[*+-]|\d+[.)])\s)/;

/** A markdown lexer that treats everything beyond {@link MAX_DEPTH}, {@link MAX_COST} and {@link MAX_TEXTS} as plain text. */
class BoundedLexer extends Lexer {
  emphasisCost = 0;
  failedTables = 0;
  #depth = 0;
  #cost = 0;
  #texts = 0;

  override blockTokens(source: string, tokens?: Token[], isClipped?: boolean): Token[];
  override blockTokens(source: string, tokens?: TokensList, isClipped?: boolean): TokensList;
  override blockTokens(source: string, tokens: Token[] = [], isClipped?: boolean): Token[] {
    // In a list, the parser searches the rest of a paragraph after each line.
    if (!this.state.top) for (const paragraph of source.split(PARAGRAPH_END)) this.#cost += paragraph.length * paragraph.split('\n').length;
    if (this.#isWithinLimits()) return this.#nest(() => super.blockTokens(source, tokens, isClipped));
    tokens.push({ type: 'paragraph', raw: source, text: source, tokens: plainTokens(source) });
    return tokens;
  }

  override inlineTokens(source: string, tokens: Token[] = []): Token[] {
    this.#cost += source.length ** 2;
    if (this.#isWithinLimits()) return this.#nest(() => super.inlineTokens(source, tokens));
    for (const token of plainTokens(source)) tokens.push(token);
    return tokens;
  }

  #isWithinLimits(): boolean {
    this.#texts += 1;
    return this.#cost <= MAX_COST && this.#depth < MAX_DEPTH && this.#texts <= MAX_TEXTS;
  }

  #nest<T>(parse: () => T): T {
    this.#depth += 1;
    try {
      return parse();
    } finally {
      this.#depth -= 1;
    }
  }
}

const tokenizer = marked.defaults.tokenizer as Tokenizer;
const { emStrong, table } = tokenizer;
tokenizer.emStrong = function (source, maskedSource, previous) {
  const lexer = this.lexer as BoundedLexer;
  if (!/^[*_]/.test(source) || lexer.emphasisCost > MAX_EMPHASIS_COST) return undefined;
  const token = emStrong.call(this, source, maskedSource, previous);
  if (!token) lexer.emphasisCost += source.length;
  return token;
};

tokenizer.table = function (source) {
  const lexer = this.lexer as BoundedLexer;
  // The second line of a table has a mark of a column.
  if (!/^.*\n.*[|:]/.test(source)) return undefined;
  if (lexer.failedTables > MAX_FAILED_TABLES) {
    const [raw] = /^(?:.*\S.*\n?)*/.exec(source) as RegExpExecArray;
    return { type: 'paragraph', raw, text: raw, tokens: plainTokens(raw.trimEnd()) } as Token as Tokens.Table;
  }
  const token = table.call(this, source);
  if (!token) lexer.failedTables += 1;
  return token;
};

const PLACEHOLDER = /data:image\/placeholder,(\d+)/g;

/** Renders markdown as safe HTML. Returns an empty string for a text that {@link isTooLongForMarkdown}. */
export function renderMarkdown(text: string): string {
  if (isTooLongForMarkdown(text)) return '';
  // Embedded images are too long for the lexer, so placeholders replace them during parsing.
  const images: string[] = [];
  const withPlaceholders = text.replace(EMBEDDED_IMAGE, (image) => `data:image/placeholder,${images.push(image) - 1}`);
  const container = inertDocument.createElement('div');
  container.append(parseAndSanitize(withPlaceholders));
  adaptToPage(container);
  // Base64 needs no escaping in HTML.
  return container.innerHTML.replace(PLACEHOLDER, (placeholder, index: string) => images[Number(index)] ?? placeholder);
}

/** Returns the start of a markdown text without its markup, for screen readers. */
export function markdownToText(text: string, length: number): string {
  // The source is longer than the text, because markup and URLs are dropped.
  return (parseAndSanitize(text.slice(0, length * 3)).textContent ?? '').trim().slice(0, length);
}

function parseAndSanitize(text: string): DocumentFragment {
  const tokens = new BoundedLexer(marked.defaults).lex(text);
  showHiddenText(tokens);
  return DOMPurify.sanitize(marked.parser(limitElements(tokens)), SANITIZE_OPTIONS);
}

/** Replaces all blocks after {@link MAX_ELEMENTS} elements by one code block with their source. */
function limitElements(blocks: Token[]): Token[] {
  let elements = 0;
  const end = blocks.findIndex((block) => (elements += countElements(block)) > MAX_ELEMENTS);
  if (end < 0) return blocks;
  const raw = blocks
    .slice(end)
    .map((block) => block.raw)
    .join('');
  return [...blocks.slice(0, end), { type: 'code', raw, text: raw }];
}

/** Tokens that create no element. */
const WITHOUT_ELEMENT = new Set(['text', 'escape', 'space', 'def']);

/** Counts the elements that a token becomes, including the elements that {@link adaptToPage} adds. */
function countElements(token: Token): number {
  // The block with its `pre`, `code` and copy button; the paragraph and the `code` of its label.
  if (token.type === 'code') return hasLabel(token) ? 6 : 4;
  // The three parts of a table, its rows and its cells.
  const tableElements = token.type === 'table' ? 4 + token.rows.length + [token.header, ...token.rows].flat().length : 0;
  const own = WITHOUT_ELEMENT.has(token.type) ? 0 : 1;
  return childrenOf(token).reduce((sum, child) => sum + countElements(child), own + tableElements);
}

/** Adapts sanitized HTML to the page. */
function adaptToPage(container: HTMLElement): void {
  for (const link of container.querySelectorAll('a')) {
    link.target = '_blank';
    link.rel = 'noopener noreferrer';
    // The link's text may show another URL.
    link.title = link.getAttribute('href') ?? '';
  }
  for (const item of container.querySelectorAll('li')) labelCheckbox(item);
  // Each block gets the text direction of its own language; code is always left to right.
  for (const block of container.children) block.setAttribute('dir', block.tagName === 'PRE' ? 'ltr' : 'auto');
  // A wide block scrolls inside the page; `tabIndex` makes it scrollable by keyboard.
  for (const table of container.querySelectorAll('table')) wrap(table, 'table-scroller').tabIndex = 0;
  for (const pre of container.querySelectorAll('pre')) {
    pre.tabIndex = 0;
    wrap(pre, 'code-block').append(createCopyButton());
  }
}

/** Adds an accessible name to the checkbox character at the start of a list item. */
function labelCheckbox(item: HTMLLIElement): void {
  const first = item.firstElementChild?.tagName === 'P' && item.firstChild === item.firstElementChild ? item.firstElementChild : item;
  const textNode = first.firstChild;
  const mark = textNode?.textContent?.[0];
  if (textNode?.nodeType !== Node.TEXT_NODE || (mark !== CHECKED && mark !== UNCHECKED)) return;
  const checkbox = inertDocument.createElement('span');
  checkbox.className = 'checkbox';
  checkbox.textContent = mark;
  checkbox.setAttribute('role', 'img');
  checkbox.setAttribute('aria-label', mark === CHECKED ? 'done' : 'to do');
  textNode.textContent = textNode.textContent?.slice(1) ?? '';
  first.prepend(checkbox);
}

function wrap(inner: Element, name: string): HTMLElement {
  const container = inertDocument.createElement('div');
  container.className = name;
  inner.before(container);
  container.append(inner);
  return container;
}

function createCopyButton(): HTMLElement {
  const button = inertDocument.createElement('button');
  button.type = 'button';
  button.className = 'copy';
  button.textContent = 'Copy';
  button.setAttribute('aria-label', 'Copy code');
  return button;
}
