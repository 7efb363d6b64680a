// The parts of the scripts that decide something.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import test from 'node:test';
import { unstable_getVarsForDev } from 'wrangler';
import { findBrowser } from '../lib/browser.mjs';
import { namespaceToken, parseDevVars } from '../lib/dev-vars.mjs';
import { CommandFailed, UserError } from '../lib/errors.mjs';
import { cargoProgress, elapsed } from '../lib/progress.mjs';
import { readLines, run, together } from '../lib/run.mjs';
import { atLeast } from '../lib/versions.mjs';
import { forRuntime } from '../lib/worker.mjs';
import { isOwnWarning } from '../lib/wrangler.mjs';

test('versions compare by number, not by text', () => {
  assert.equal(atLeast('22.12.0', '22.12.0'), true);
  assert.equal(atLeast('v24.0.0', '22.12.0'), true);
  assert.equal(atLeast('22.9.1', '22.12.0'), false);
  assert.equal(atLeast('20.20.2', '22.12.0'), false);
  assert.equal(atLeast('23.0.0-nightly', '22.12.0'), true);
});

test('the program that binds the wasm has the version of the crate whose wasm it binds', () => {
  const locked = (file, crate) => {
    const lock = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
    return lock.match(new RegExp(`name = "${crate}"\nversion = "([^"]+)"`))[1];
  };
  assert.equal(locked('tools/bind/Cargo.lock', 'wasm-bindgen-cli-support'), locked('Cargo.lock', 'wasm-bindgen'));
});

test('times are told in the unit a person would use', () => {
  assert.equal(elapsed(1234), '1.2 s');
  assert.equal(elapsed(12_345), '12 s');
  assert.equal(elapsed(59_700), '60 s');
  assert.equal(elapsed(61_000), '1 min 01 s');
});

test("cargo's progress becomes a state, and its errors are kept", () => {
  const states = [];
  const swallow = cargoProgress((state) => states.push(state));
  assert.equal(swallow('    Building [=====>           ] 80/287: syn, zstd-sys(build)'), true);
  assert.equal(swallow('   Compiling syn v2.0.1'), true);
  assert.equal(swallow('error[E0425]: cannot find value `x` in this scope'), false);
  assert.equal(swallow('warning: unused variable: `Building`'), false);
  assert.deepEqual(states, ['80 of 287 crates, syn']);
});

test('lines arrive whole, however the stream is cut, and so do lines rewritten in place', async () => {
  const stream = new PassThrough();
  const lines = [];
  readLines(stream, (line) => lines.push(line));
  for (const chunk of ['one\ntw', 'o\r\n10 %\r20', ' %\rlast']) stream.write(chunk);
  stream.end();
  await once(stream, 'end');
  assert.deepEqual(lines, ['one', 'two', '10 %', '20 %', 'last']);
});

test('a program that fails says how, with its output', async () => {
  const failing = run(process.execPath, ['-e', 'console.error("no such thing"); process.exit(3)']);
  await assert.rejects(failing, (error) => {
    assert.ok(error instanceof CommandFailed);
    assert.equal(error.code, 3);
    assert.match(error.output, /no such thing/);
    assert.equal(error.hint, undefined);
    return true;
  });
});

test('a fault of the machine comes with what to do about it', async () => {
  const faults = {
    network: [
      'npm error code ENOTFOUND',
      'npm error FetchError: request to https://registry.example/x failed, reason: connect ECONNREFUSED 127.0.0.1:9',
      '  [6] Could not resolve hostname (Could not resolve host: index.crates.io)',
      'error: could not download file: error sending request for url (https://static.rust-lang.org/…): dns error',
    ],
    'disk is full': [
      'npm error nospc ENOSPC: no space left on device, write',
      'error: failed to write `target/x`: No space left on device (os error 28)',
    ],
    'C compiler': [
      'error: linker `cc` not found\n  = note: No such file or directory (os error 2)',
      'error occurred in cc-rs: failed to find tool "cc": No such file or directory (os error 2)',
    ],
    'may not write': ["npm error EACCES: permission denied, mkdir '/srv/hub/node_modules'"],
  };
  for (const [hint, outputs] of Object.entries(faults)) {
    for (const output of outputs) {
      const failing = run(process.execPath, ['-e', 'console.error(process.argv[1]); process.exit(1)', output]);
      await assert.rejects(failing, (error) => new RegExp(hint).test(error.hint), output);
    }
  }
});

test('when one of several tasks fails, the programs of the others end and its error is the one that counts', async () => {
  let endless;
  const forever = () => (endless = run(process.execPath, ['-e', 'setInterval(() => {}, 1e6)']));
  const failing = () => run(process.execPath, ['-e', 'process.exit(3)']);
  const bystander = run(process.execPath, ['-e', 'setTimeout(() => {}, 500)']);
  await assert.rejects(together(forever, () => together(failing)), (error) => error.code === 3);
  await assert.rejects(endless, (error) => error.signal === 'SIGTERM');
  await bystander;
});

test('when several programs are missing the error names one of them', async () => {
  const missing = (name) => () => run(name, []);
  await assert.rejects(together(missing('nobody-has-this'), missing('nor-this')), /`nobody-has-this` was not found/);
});

test('a program that is missing is an error that a person understands', async () => {
  await assert.rejects(run('a-program-that-nobody-has', []), (error) => {
    assert.ok(error instanceof UserError);
    assert.match(error.message, /a-program-that-nobody-has.*not found/);
    return true;
  });
});

test('.dev.vars is read as wrangler reads it', (t) => {
  const text = [
    '# a comment',
    'CLI_API_TOKEN=first',
    'export CLI_API_TOKEN = second # the last one counts',
    "SINGLE='with # and spaces '",
    'DOUBLE=" with # too"   # but not this',
    'BACKTICKS=`with "both" of the others\' `',
    'BREAKS="first\\nsecond"',
    "NO_BREAKS='first\\nsecond'",
    'LINES="first',
    'second"',
    'ESCAPED="a \\"quoted\\" word"',
    'HALF="open',
    'INSIDE=it\'s # so',
    'COLON: after a colon',
    'EMPTY=',
    'EMPTY_TOO=""',
    '  INDENTED=yes',
    '#COMMENTED=out',
    'URL=https://hub.example.com:8787/?a=b',
    'REFERENCE=$EMPTY ${URL}',
  ];
  const folder = mkdtempSync(path.join(tmpdir(), 'dev-vars-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const written of [text.join('\n'), text.join('\r\n'), ...text, '']) {
    writeFileSync(path.join(folder, '.dev.vars'), written);
    const bindings = unstable_getVarsForDev(path.join(folder, 'wrangler.toml'), undefined, {}, undefined, true);
    const expected = Object.fromEntries(Object.entries(bindings).map(([name, { value }]) => [name, value]));
    assert.deepEqual(parseDevVars(written), expected, written);
  }
  assert.equal(parseDevVars(text.join('\n')).SINGLE, 'with # and spaces ');
});

test('the bindings name a snippet file once, and import the wasm as the runtime does', () => {
  const entry = (file, name) => `        "./snippets/hub/${file}": ${name},\n`;
  const script = (entries) => `    return {\n        "./index_bg.js": import0,\n${entries}    };\n`;
  const given = script(entry('a.js', 'import1') + entry('b.js', 'import2') + entry('a.js', 'import3'));
  const bindings = (imported) => `import ${imported} from "./index_bg.wasm";\n`;
  assert.equal(
    forRuntime(bindings('source wasmModule') + given),
    bindings('wasmModule') + script(entry('a.js', 'import1') + entry('b.js', 'import2')),
  );
  assert.throws(() => forRuntime(bindings('wasmModule') + given), UserError);
});

test('a warning of wrangler counts when it is about the project', () => {
  assert.equal(isOwnWarning('▲ [WARNING] Duplicate key "./snippets/hub/glue.js" in object literal [duplicate-object-key]'), true);
  assert.equal(isOwnWarning('▲ [WARNING] Processing wrangler.toml configuration:'), true);
  assert.equal(isOwnWarning("▲ [WARNING] Proxy environment variables detected. We'll use your proxy for fetch requests."), false);
  assert.equal(isOwnWarning('Total Upload: 1696.30 KiB / gzip: 647.91 KiB'), false);
});

test('the token of a namespace follows from the secret as docs/PROTOCOL.md says', () => {
  // echo -n namespace:team-a | openssl dgst -sha256 -hmac secret -binary | basenc --base64url, without the padding
  assert.equal(namespaceToken('secret', 'team-a'), 'KGbYcyBMT0WEjhBKxiIaSRMyFZ5dLjQOR-o9l8_PBXI:team-a');
  assert.notEqual(namespaceToken('secret', 'team-b'), namespaceToken('secret', 'team-a'));
});

test('a browser that is named is taken, and no other in its place', () => {
  assert.equal(findBrowser(process.execPath), process.execPath);
  assert.equal(findBrowser(path.join(process.execPath, 'nothing')), undefined);
});
