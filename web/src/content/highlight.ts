/** Syntax highlighting. The grammar of a language is fetched on first use. */

import hljs from 'highlight.js/lib/core';
import { TextCache } from './text-cache.ts';

type Language = typeof import('highlight.js/lib/languages/bash');

const LANGUAGES: Record<string, () => Promise<Language>> = {
  bash: () => import('highlight.js/lib/languages/bash'),
  c: () => import('highlight.js/lib/languages/c'),
  cpp: () => import('highlight.js/lib/languages/cpp'),
  csharp: () => import('highlight.js/lib/languages/csharp'),
  css: () => import('highlight.js/lib/languages/css'),
  diff: () => import('highlight.js/lib/languages/diff'),
  dockerfile: () => import('highlight.js/lib/languages/dockerfile'),
  go: () => import('highlight.js/lib/languages/go'),
  ini: () => import('highlight.js/lib/languages/ini'),
  java: () => import('highlight.js/lib/languages/java'),
  javascript: () => import('highlight.js/lib/languages/javascript'),
  json: () => import('highlight.js/lib/languages/json'),
  kotlin: () => import('highlight.js/lib/languages/kotlin'),
  makefile: () => import('highlight.js/lib/languages/makefile'),
  markdown: () => import('highlight.js/lib/languages/markdown'),
  php: () => import('highlight.js/lib/languages/php'),
  python: () => import('highlight.js/lib/languages/python'),
  ruby: () => import('highlight.js/lib/languages/ruby'),
  rust: () => import('highlight.js/lib/languages/rust'),
  scss: () => import('highlight.js/lib/languages/scss'),
  sql: () => import('highlight.js/lib/languages/sql'),
  swift: () => import('highlight.js/lib/languages/swift'),
  typescript: () => import('highlight.js/lib/languages/typescript'),
  xml: () => import('highlight.js/lib/languages/xml'),
  yaml: () => import('highlight.js/lib/languages/yaml'),
};

/** Other names of languages, and file extensions. */
const ALIASES: Record<string, string> = {
  sh: 'bash',
  zsh: 'bash',
  shell: 'bash',
  h: 'c',
  cc: 'cpp',
  hpp: 'cpp',
  cs: 'csharp',
  toml: 'ini',
  js: 'javascript',
  jsx: 'javascript',
  mjs: 'javascript',
  cjs: 'javascript',
  jsonc: 'json',
  kt: 'kotlin',
  mk: 'makefile',
  md: 'markdown',
  patch: 'diff',
  py: 'python',
  rb: 'ruby',
  rs: 'rust',
  ts: 'typescript',
  tsx: 'typescript',
  mts: 'typescript',
  html: 'xml',
  svg: 'xml',
  vue: 'xml',
  yml: 'yaml',
};

/** Highlighting more characters would block the page. */
const MAX_LENGTH = 200_000;

/** Grammars search at each character of a long word for its end: the time grows with the sum of the squares of the words' lengths. */
const MAX_WORD_WORK = 50_000_000;

/** Whether the words of a text are too long to be highlighted. */
function hasLongWords(code: string): boolean {
  let work = 0;
  for (const [word] of code.matchAll(/\w{500,}/g)) work += word.length ** 2;
  return work > MAX_WORD_WORK;
}

/** Returns the language for a name such as `rs`, or for a file name. Returns null for an unknown language. */
function resolveLanguage(languageHint: string): string | null {
  const alias = languageHint.toLowerCase().split(/[./]/).at(-1) ?? '';
  const name = Object.hasOwn(ALIASES, alias) ? (ALIASES[alias] ?? alias) : alias;
  // The hint comes from the agent and may be `constructor`.
  return Object.hasOwn(LANGUAGES, name) ? name : null;
}

const cache = new TextCache();

/**
 * Returns highlighted code as safe HTML: everything but the highlighting is escaped.
 * @returns null if the language is unknown, its grammar cannot be fetched, or the code or its words are too long
 */
export async function highlight(code: string, languageHint: string): Promise<string | null> {
  const name = resolveLanguage(languageHint);
  const load = name === null ? undefined : LANGUAGES[name];
  if (name === null || !load || code.length > MAX_LENGTH || hasLongWords(code)) return null;
  if (!hljs.getLanguage(name)) {
    const grammar = await load().catch(() => null);
    if (grammar === null) return null;
    hljs.registerLanguage(name, grammar.default);
  }
  return cache.get(`${name} ${code}`, () => hljs.highlight(code, { language: name, ignoreIllegals: true }).value);
}

/** Highlights a `<code>` element by its `language-` class. */
export async function highlightBlock(element: HTMLElement): Promise<void> {
  const languageHint = /(?:^|\s)language-(\S+)/.exec(element.className)?.[1] ?? '';
  const highlighted = await highlight(element.textContent ?? '', languageHint);
  if (highlighted !== null) element.innerHTML = highlighted;
}
