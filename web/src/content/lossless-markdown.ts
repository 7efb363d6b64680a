/**
 * Rules for the Markdown parser, so that all text of a source is visible. Standard Markdown hides HTML, surplus cells of a table,
 * unused link definitions, titles of links and images, and all words but the first after a code fence.
 */

import { type MarkedExtension, Renderer, type Token, Tokenizer, type Tokens } from 'marked';

export const LOSSLESS_RULES: MarkedExtension = {
  tokenizer: {
    // Without these two rules, HTML is text.
    html: () => undefined,
    tag: () => undefined,
    table: tokenizeTable,
  },
  renderer: { code: renderCode },
};

/** Converts a text to text tokens and line breaks, so that its markup is shown and has no effect. */
export function plainTokens(text: string): Token[] {
  return text.split('\n').flatMap((line, index): Token[] => {
    const textNode = { type: 'text', raw: line, text: line, escaped: false };
    return index === 0 ? [textNode] : [{ type: 'br', raw: '\n' }, textNode];
  });
}

/** Parses a table. A row keeps the cells that its header does not have. */
function tokenizeTable(this: Tokenizer, source: string): Tokens.Table | undefined {
  const table = Tokenizer.prototype.table.call(this, source);
  const lines = table?.raw.split('\n').slice(2) ?? [];
  for (const [index, line] of lines.entries()) {
    for (const text of splitRow(line).slice(table?.header.length))
      table?.rows[index]?.push({ text, tokens: this.lexer.inline(text), header: false, align: null });
  }
  return table;
}

/** Splits a row at its pipes, except those after an odd number of backslashes. */
function splitRow(line: string): string[] {
  const cells = line.trim().split(/(?<=(?<!\\)(?:\\\\)*)\|/);
  if (cells[0] === '') cells.shift();
  if (cells.at(-1) === '') cells.pop();
  return cells.map((cell) => cell.trim().replaceAll('\\|', '|'));
}

/** Whether a code block has more than the name of its language after the fence. */
export const hasLabel = (token: Token): boolean => token.type === 'code' && /\s/.test(token.lang ?? '');

/** Renders a code block, after a paragraph with the words after its fence. */
function renderCode(this: Renderer, token: Tokens.Code): string {
  const label = hasLabel(token) ? [{ type: 'codespan', raw: '', text: token.lang }] : [];
  return (label.length > 0 ? `<p>${this.parser.parseInline(label)}</p>\n` : '') + Renderer.prototype.code.call(this, token);
}

/** Returns the tokens in a token. */
export function childrenOf(token: Token): Token[] {
  if (token.type === 'table') return [token.header, ...token.rows].flat().flatMap((cell) => cell.tokens);
  return (token as Tokens.List).items ?? (token as Tokens.Generic).tokens ?? [];
}

/** Calls a function with each token, and then with those in it. Unlike `marked.walkTokens`, collects no results, of which a table has many. */
function walk(tokens: Token[], visit: (token: Token) => void): void {
  for (const token of tokens) {
    visit(token);
    walk(childrenOf(token), visit);
  }
}

/** Replaces tokens that would be invisible. */
export function showHiddenText(tokens: Token[]): void {
  const targets = new Set<string>();
  walk(tokens, (token) => {
    if (token.type === 'image' || token.type === 'link') targets.add(token.href);
  });
  walk(tokens, (token) => {
    showTitle(token);
    if (token.type === 'image') showImageAddress(token as Tokens.Image);
    if (token.type === 'link') showLink(token as Tokens.Link);
    if (token.type === 'table') for (const cell of (token as Tokens.Table).rows.flat()) cell.tokens = breakLines(cell.tokens);
    if (token.type === 'def' && !targets.has(token.href))
      Object.assign(token, { type: 'paragraph', text: token.raw, tokens: plainTokens(token.raw) });
  });
}

/** Shows the title of a link or image after it: a tooltip is easily missed. */
function showTitle(token: Token): void {
  if ((token.type === 'link' || token.type === 'image') && token.title)
    Object.assign(token, { type: 'text', tokens: [{ ...token, title: null }, ...plainTokens(` "${token.title}"`)] });
}

/** Replaces an image of another site by a link, because the Content-Security-Policy blocks it; an image without an address by its text. */
function showImageAddress(image: Tokens.Image): void {
  if (image.href.startsWith('data:')) return;
  const type = /^https?:/.test(image.href) ? 'link' : 'text';
  Object.assign(image, { type, tokens: image.text.trim() === '' ? plainTokens(image.href) : image.tokens });
}

/** Shows the source of a link without a text. Replaces other links in the text, such as those of images, by their text. */
function showLink(link: Tokens.Link): void {
  if (link.autolink) return;
  walk(link.tokens, (token) => {
    showTitle(token);
    if (token.type === 'image') showImageAddress(token as Tokens.Image);
    if (token.type === 'link') Object.assign(token, { type: 'text' });
  });
  if (link.tokens.length === 0) Object.assign(link, { type: 'text', tokens: plainTokens(link.raw) });
}

/** Replaces the tag `<br>` by a line break: a cell of a table has no other way to begin a line. */
function breakLines(cell: Token[]): Token[] {
  return cell.flatMap((token) => (token.type === 'text' ? plainTokens(token.text.replace(/<br ?\/?>/gi, '\n')) : [token]));
}
