/** What the built worker exports, beside what the official build tools make of the same crate. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { exportsOf } from './lib/exports.mjs';
import { ROOT } from './lib/hub.mjs';

const official = JSON.parse(readFileSync(new URL('official-exports.json', import.meta.url), 'utf8'));

/** Classes of the `worker` crate for features that the hub does not use. */
const UNUSED = ['ContainerStartupOptions', 'MinifyConfig', 'R2Range'];

/** Methods of every class of wasm-bindgen, for callers that manage wasm memory themselves. */
const OF_WASM_BINDGEN = ['__destroy_into_raw', 'free'];

test('the worker exports what the official tools export, without the classes that nothing uses', async () => {
  const expected = Object.entries(official.exports)
    .filter(([name]) => !UNUSED.includes(name))
    .map(([name, methods]) => [name, methods.filter((method) => !OF_WASM_BINDGEN.includes(method))]);
  assert.deepEqual(await exportsOf(path.join(ROOT, 'build')), Object.fromEntries(expected));
});

test('the official exports were recorded with the versions of Cargo.lock', () => {
  const lock = readFileSync(path.join(ROOT, 'Cargo.lock'), 'utf8');
  const locked = (crate) => lock.match(new RegExp(`name = "${crate}"\nversion = "([^"]+)"`))[1];
  assert.deepEqual(
    official.versions,
    { 'worker-build': locked('worker'), 'wasm-bindgen-cli': locked('wasm-bindgen') },
    'Record them again: node scripts/official-exports.mjs',
  );
});
