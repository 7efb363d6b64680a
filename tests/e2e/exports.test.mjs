/** Compares the exports of the built worker with the exports of a build by the official tools. */

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
const WASM_BINDGEN_METHODS = ['__destroy_into_raw', 'free'];

test('the worker has the exports of the official build, without the unused classes', async () => {
  const expected = Object.entries(official.exports)
    .filter(([name]) => !UNUSED.includes(name))
    .map(([name, methods]) => [name, methods.filter((method) => !WASM_BINDGEN_METHODS.includes(method))]);
  assert.deepEqual(await exportsOf(path.join(ROOT, 'build')), Object.fromEntries(expected));
});

test('the official exports were recorded with the versions of Cargo.lock', () => {
  const lock = readFileSync(path.join(ROOT, 'Cargo.lock'), 'utf8');
  const lockedVersion = (crate) => lock.match(new RegExp(`name = "${crate}"\nversion = "([^"]+)"`))[1];
  assert.deepEqual(
    official.versions,
    { 'worker-build': lockedVersion('worker'), 'wasm-bindgen-cli': lockedVersion('wasm-bindgen') },
    'Record them again with: node scripts/dev/official-exports.mjs',
  );
});
