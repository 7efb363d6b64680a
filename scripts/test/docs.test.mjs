// The files, folders, pages and sections that the documentation and the code name exist.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { ROOT, inProject } from '../lib/paths.mjs';

/** Paths of generated files, which are not in git. */
const GENERATED = ['web/dist', 'web/types', 'bench/results'];

/** Folders with code, and those that have only generated files in them. */
const CODE = ['src', 'tests', 'scripts', 'fuzz', 'bench', 'cli', 'examples', 'packages', 'web', 'docs'];
const SKIPPED = ['node_modules', 'target', 'dist', 'results'];

/** The files in a folder and its folders, as paths relative to the project's root. @param {string} folder */
const list = (folder) =>
  readdirSync(inProject(folder), { withFileTypes: true }).flatMap((entry) => {
    const name = path.join(folder, entry.name);
    if (entry.isDirectory()) return SKIPPED.includes(entry.name) ? [] : list(name);
    return [name];
  });

const files = [...readdirSync(ROOT).filter((name) => name.endsWith('.md')), ...CODE.flatMap(list)];
const pages = files.filter((name) => name.endsWith('.md'));
const sources = files.filter((name) => /\.(rs|mjs|js|ts|tsx|yaml)$/.test(name));
const read = (file) => readFileSync(inProject(file), 'utf8');

/** The text of a page without its blocks of code. */
const readProse = (page) => read(page).replace(/^```[^]*?^```$/gm, '');

const headingsOf = (page) => [...readProse(page).matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading);

/** The anchors of a page, as GitHub makes them from its headings, and those that it defines itself. */
function anchorsOf(page) {
  const anchors = headingsOf(page).map((heading) =>
    heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, '').replaceAll(' ', '-'),
  );
  return [...anchors, ...[...read(page).matchAll(/<a id="([^"]+)">/g)].map(([, id]) => id)];
}

test('the paths that the documentation names exist', () => {
  const missing = pages.flatMap((page) => {
    const paths = [...read(page).matchAll(/`((?:src|tests|scripts|web|bench|fuzz|docs|examples|packages|cli|tools)\/[\w./-]+)`/g)].map(([, name]) => name);
    const exists = (name) => existsSync(inProject(name)) || existsSync(inProject(path.dirname(page), name));
    return paths.filter((name) => !exists(name) && !GENERATED.some((generated) => name.startsWith(generated))).map((name) => `${page}: ${name}`);
  });
  assert.deepEqual(missing, []);
});

test('every link of the documentation has its page and its section', () => {
  let links = 0;
  const broken = pages.flatMap((page) => {
    const targets = [...readProse(page).matchAll(/\]\(\s*([^)\s]+)\)|(?:src|href)="([^"]+)"/g)].map(([, link, attribute]) => link ?? attribute);
    const isBroken = (target) => {
      if (/^[a-z]+:/.test(target)) return false;
      links += 1;
      const [file, anchor] = target.split('#');
      const linked = file === '' ? page : path.join(path.dirname(page), file);
      if (!existsSync(inProject(linked))) return true;
      return anchor !== undefined && (statSync(inProject(linked)).isDirectory() || !anchorsOf(linked).includes(anchor));
    };
    return targets.filter(isBroken).map((target) => `${page}: ${target}`);
  });
  assert.deepEqual(broken, []);
  assert.ok(links > 200, `${links} links were found`);
});

test('the sections of the protocol that the code names exist', () => {
  let references = 0;
  const missing = sources.flatMap((file) => {
    const text = read(file).replace(/\n\s*(?:\/\/[/!]?|\*)\s*/g, ' ');
    const named = [...text.matchAll(/\b(PROTOCOL[\w-]*\.md),? (?:"([^"]+)"|`([^`]+)`)/g)];
    references += named.length;
    return named.filter(([, page, heading, route]) => !existsSync(inProject('docs', page)) || !headingsOf(`docs/${page}`).includes(heading ?? route)).map(([text]) => `${file}: ${text}`);
  });
  assert.deepEqual(missing, []);
  assert.ok(references > 60, `${references} references were found`);
});
