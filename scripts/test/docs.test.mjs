// The files and folders that the documentation names exist.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import test from 'node:test';
import { inProject } from '../lib/paths.mjs';

/** Paths of generated files, which are not in git. */
const GENERATED = ['web/dist', 'web/types', 'bench/results'];

const pages = ['README.md', 'CONTRIBUTING.md', 'bench/README.md', ...['docs', 'docs/design'].flatMap((folder) =>
  readdirSync(inProject(folder)).filter((name) => name.endsWith('.md')).map((name) => `${folder}/${name}`),
)];

test('the paths that the documentation names exist', () => {
  const missing = pages.flatMap((page) => {
    const text = readFileSync(inProject(page), 'utf8');
    const paths = [...text.matchAll(/`((?:src|tests|scripts|web|bench|fuzz|docs|examples|packages|cli|tools)\/[\w./-]+)`/g)].map(([, path]) => path);
    return paths.filter((path) => !existsSync(inProject(path)) && !GENERATED.some((generated) => path.startsWith(generated))).map((path) => `${page}: ${path}`);
  });
  assert.deepEqual(missing, []);
});
