/** Colours code. The colouring itself, and each language, are fetched when they are first needed. */

import hljs from 'highlight.js/lib/core';

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

/** Other words for a language, and the endings of its files. */
const ALIASES: Record<string, string> = {
  sh: 'bash', zsh: 'bash', shell: 'bash', h: 'c', cc: 'cpp', hpp: 'cpp', cs: 'csharp', toml: 'ini', js: 'javascript',
  jsx: 'javascript', mjs: 'javascript', cjs: 'javascript', jsonc: 'json', kt: 'kotlin', mk: 'makefile', md: 'markdown',
  patch: 'diff', py: 'python', rb: 'ruby', rs: 'rust', ts: 'typescript', tsx: 'typescript', mts: 'typescript',
  html: 'xml', svg: 'xml', vue: 'xml', yml: 'yaml',
};

/** Above this many characters colouring would hold up the page. */
const MAX_LENGTH = 200_000;

/** The language of a word such as `rs`, or of a file's name. Null for what is not known. */
function languageOf(word: string): string | null {
  const ending = word.toLowerCase().split(/[./]/).at(-1) ?? '';
  const name = Object.hasOwn(ALIASES, ending) ? (ALIASES[ending] ?? ending) : ending;
  // The word is an agent's: `constructor` is no language.
  return Object.hasOwn(LANGUAGES, name) ? name : null;
}

/**
 * Code as HTML in which everything but the colouring is escaped.
 * @returns null when the language is unknown or its grammar cannot be fetched, or the code is too long
 */
export async function highlight(code: string, word: string): Promise<string | null> {
  const name = languageOf(word);
  const load = name === null ? undefined : LANGUAGES[name];
  if (name === null || !load || code.length > MAX_LENGTH) return null;
  if (!hljs.getLanguage(name)) {
    const grammar = await load().catch(() => null);
    if (grammar === null) return null;
    hljs.registerLanguage(name, grammar.default);
  }
  return hljs.highlight(code, { language: name, ignoreIllegals: true }).value;
}

/** Colours a block of code of a page. */
export async function highlightBlock(element: HTMLElement): Promise<void> {
  const word = /(?:^|\s)language-(\S+)/.exec(element.className)?.[1] ?? '';
  const coloured = await highlight(element.textContent ?? '', word);
  if (coloured !== null) element.innerHTML = coloured;
}
