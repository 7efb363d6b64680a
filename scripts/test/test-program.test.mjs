// The program that runs test files: each way in which a file fails is reported, and the files after it still run.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { inProject } from '../lib/paths.mjs';
import { run } from '../lib/run.mjs';

const FILES = {
  'a-test.mjs': "import { describe, test } from 'node:test'; describe('suite', () => test('fails', () => { throw new Error('wrong'); }));",
  'a-hook.mjs': "import { after, test } from 'node:test'; after(() => { throw new Error('not stopped'); }); test('passes', () => {});",
  'a-crash.mjs': "throw new Error('boom');",
  'an-exit.mjs': "import { test } from 'node:test'; test('passes', () => {}); process.on('exit', () => { process.exitCode = 3; });",
  'the-last.mjs': "import { test } from 'node:test'; test('passes', () => {}); test.skip('is skipped', () => {});",
};

test('a failed test, a failed hook, a crash and an exit code are failures of their files, and the next file runs', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'test-program-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(FILES)) writeFileSync(path.join(folder, name), text);
  const files = Object.keys(FILES).map((name) => path.join(folder, name));
  const options = JSON.stringify({ files, concurrency: 1, timeoutMs: 60_000 });
  // Inside of a test, Node's runner would report to this test.
  const env = { NODE_TEST_CONTEXT: undefined };
  const output = await run(process.execPath, [inProject('scripts', 'lib', 'gate', 'test-program.mjs'), options], { env });
  const events = output
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const resultsOf = (type) =>
    events.filter((event) => event.type === type).map(({ file, title }) => `${path.basename(file)}: ${path.basename(title)}`);
  assert.deepEqual(resultsOf('failed').sort(), [
    'a-crash.mjs: a-crash.mjs',
    'a-hook.mjs: a-hook.mjs',
    'a-test.mjs: suite › fails',
    'an-exit.mjs: an-exit.mjs',
  ]);
  assert.deepEqual(resultsOf('passed').sort(), ['a-hook.mjs: passes', 'an-exit.mjs: passes', 'the-last.mjs: passes']);
  assert.deepEqual(resultsOf('skipped'), ['the-last.mjs: is skipped']);
});
