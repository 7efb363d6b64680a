// What `npm test` remembers of earlier runs: a key for each check, which each of its inputs changes.

import assert from 'node:assert/strict';
import { globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { CHECKS } from '../gate/checks.mjs';
import { keysOf } from '../gate/passes.mjs';
import { expiredEntries } from '../gate/quarantine.mjs';
import { inProject } from '../lib/paths.mjs';

const REMEMBERED = CHECKS.filter(({ isLong }) => !isLong);

test('a change of any input changes the key of a check, and other changes do not', (t) => {
  const root = tempDir(t);
  const write = (file, text) => {
    mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
    writeFileSync(path.join(root, file), text);
  };
  for (const check of REMEMBERED) {
    const own = check.files?.().slice(0, 2) ?? [check.title];
    const files = check.inputs.map((input) => (statSync(inProject(input)).isDirectory() ? `${input}/some/file` : input));
    const inputs = ['package-lock.json', 'scripts/gate/checks.mjs', ...files, ...(check.files ? own.slice(0, 1) : [])];
    inputs.forEach((file) => write(file, 'old'));
    const keys = keysOf(check, own, root);
    for (const file of inputs) {
      write(file, 'new');
      assert.notEqual(keysOf(check, own, root)[own[0]], keys[own[0]], `${check.title}: ${file}`);
      write(file, 'old');
    }
    write('other/file', check.title);
    assert.deepEqual(keysOf(check, own, root), keys, check.title);
  }
});

test('the files that a Rust source contains, and the pages of the project, are inputs', () => {
  const inputsOf = (title) => REMEMBERED.find((check) => check.title === title).inputs;
  const isInput = (file, inputs) => inputs.some((input) => file === input || file.startsWith(`${input}/`));
  const sources = globSync('{src,tests/it,fuzz/src}/**/*.rs', { cwd: inProject() });
  const contained = sources.flatMap((file) => {
    const included = readFileSync(inProject(file), 'utf8').matchAll(/include(?:_str|_bytes)?!\(\s*"([^"]+)"/g);
    return [...included].map(([, target]) => path.join(path.dirname(file), target).replaceAll(path.sep, '/'));
  });
  assert.ok(contained.includes('docs/openapi.yaml'));
  assert.deepEqual(
    contained.filter((file) => !isInput(file, inputsOf('Native tests'))),
    [],
  );
  const pages = globSync('*.md', { cwd: inProject() });
  assert.deepEqual(
    pages.filter((name) => !isInput(name, inputsOf('Script and platform tests'))),
    [],
  );
});

test('a test stays in quarantine for 14 days', () => {
  const entry = (date) => ({ test: 'a.mjs › b', reason: 'unknown', date });
  const expired = expiredEntries([entry('2026-10-31'), entry('2026-11-01'), entry('soon')], Date.parse('2026-11-15'));
  assert.deepEqual(expired, ['a.mjs › b: in quarantine since 2026-10-31: unknown', 'a.mjs › b: in quarantine since soon: unknown']);
});
