// Tests of the scripts' modules.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import test from 'node:test';
import { unstable_getVarsForDev } from 'wrangler';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { parseDevVars } from '../../packages/cli-kit/src/dev-vars.mjs';
import { describeOtherVersion, findBrowser } from '../gate/browser.mjs';
import { CHECKS } from '../gate/checks.mjs';
import { closeMatches } from '../lib/close-matches.mjs';
import { namespaceToken } from '../lib/dev-vars.mjs';
import { CommandFailed, UserError } from '../lib/errors.mjs';
import { refuseLinks } from '../lib/npm.mjs';
import { buildPrevious, findPreviousCommit } from '../build/previous.mjs';
import { cargoProgress, formatDuration, progressLine } from '../lib/progress.mjs';
import { readLines, run, runParallel } from '../lib/run.mjs';
import { atLeast } from '../lib/versions.mjs';
import { adaptBindings, deleteWasmOfOtherClone } from '../build/worker.mjs';
import { isProjectWarning } from '../product/hub/wrangler.mjs';

test('packages are not installed through a link to the packages of another project', (t) => {
  const root = tempDir(t);
  writeFileSync(path.join(root, 'package.json'), JSON.stringify({ workspaces: ['tool'] }));
  for (const folder of ['other', 'tool', 'node_modules']) mkdirSync(path.join(root, folder));
  refuseLinks(root);
  const link = path.join(root, 'tool', 'node_modules');
  symlinkSync('../other', link, 'junction');
  assert.throws(
    () => refuseLinks(root),
    ({ message, hint }) => message.includes('is a symbolic link to ') && hint.includes(link),
  );
});

test('versions are compared by number', () => {
  assert.equal(atLeast('22.12.0', '22.12.0'), true);
  assert.equal(atLeast('v24.0.0', '22.12.0'), true);
  assert.equal(atLeast('22.9.1', '22.12.0'), false);
  assert.equal(atLeast('20.20.2', '22.12.0'), false);
  assert.equal(atLeast('23.0.0-nightly', '22.12.0'), true);
});

test('the bindings program has the same version of wasm-bindgen as the crate', () => {
  const locked = (file, crate) => {
    const lock = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
    return lock.match(new RegExp(`name = "${crate}"\nversion = "([^"]+)"`))[1];
  };
  assert.equal(locked('tools/bind/Cargo.lock', 'wasm-bindgen-cli-support'), locked('Cargo.lock', 'wasm-bindgen'));
});

test('durations are in seconds, or minutes and seconds', () => {
  assert.equal(formatDuration(1234), '1.2 s');
  assert.equal(formatDuration(12_345), '12 s');
  assert.equal(formatDuration(59_700), '60 s');
  assert.equal(formatDuration(61_000), '1 min 01 s');
});

test('the progress line shows the state of a single step, and shortens the titles of several steps to its width', () => {
  const steps = ['Native tests', 'Wasm build and size', 'Web console build and size', 'End-to-end tests with timers'].map((title) => ({
    title,
    ms: 65_000,
    state: '80 of 287 crates, syn',
  }));
  assert.equal(progressLine(steps.slice(0, 1), 79), '  … Native tests 1 min 05 s: 80 of 287 crates, syn');
  assert.equal(progressLine(steps.slice(0, 1), 30), '  … Native tests 1 min 05 s: …');
  assert.equal(progressLine(steps.slice(0, 2), 79), '  … Native tests 1 min 05 s · Wasm build and size 1 min 05 s');
  const line = progressLine(steps, 79);
  assert.ok(line.length <= 79, line);
  assert.equal(line.split(' · ').length, 4);
});

test('names similar to a mistyped name are found, the most similar name first', () => {
  const files = ['tests/e2e/push.test.mjs', 'tests/e2e/panic.test.mjs', 'scripts/test/lock.test.mjs'];
  assert.deepEqual(closeMatches('tests/e2e/pusch.test.mjs', files), ['tests/e2e/push.test.mjs']);
  assert.deepEqual(closeMatches('lock', files), ['scripts/test/lock.test.mjs']);
  assert.deepEqual(closeMatches('nonsense', files), []);
});

test("cargo's progress becomes a state, and its errors are kept", () => {
  const states = [];
  const isProgress = cargoProgress((state) => states.push(state));
  assert.equal(isProgress('    Building [=====>           ] 80/287: syn, zstd-sys(build)'), true);
  assert.equal(isProgress('   Compiling syn v2.0.1'), true);
  assert.equal(isProgress('error[E0425]: cannot find value `x` in this scope'), false);
  assert.equal(isProgress('warning: unused variable: `Building`'), false);
  assert.deepEqual(states, ['80 of 287 crates, syn']);
});

test('lines are split at line breaks and carriage returns, independent of the chunks', async () => {
  const stream = new PassThrough();
  const lines = [];
  readLines(stream, (line) => lines.push(line));
  for (const chunk of ['one\ntw', 'o\r\n10 %\r20', ' %\rlast']) stream.write(chunk);
  stream.end();
  await once(stream, 'end');
  assert.deepEqual(lines, ['one', 'two', '10 %', '20 %', 'last']);
});

test('the error of a failed program has its exit code and output', async () => {
  const failing = run(process.execPath, ['-e', 'console.error("no such thing"); process.exit(3)']);
  await assert.rejects(failing, (error) => {
    assert.ok(error instanceof CommandFailed);
    assert.equal(error.code, 3);
    assert.match(error.output, /no such thing/);
    assert.equal(error.hint, undefined);
    return true;
  });
});

test('the error about a problem of the computer has a hint about what to do', async () => {
  const problems = {
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
  for (const [hint, outputs] of Object.entries(problems)) {
    for (const output of outputs) {
      const failing = run(process.execPath, ['-e', 'console.error(process.argv[1]); process.exit(1)', output]);
      await assert.rejects(failing, (/** @type {UserError} */ error) => new RegExp(hint).test(error.hint), output);
    }
  }
});

test('when a parallel task fails, the programs of the other tasks are ended, and the error of the failed task is thrown', async () => {
  let endless;
  const forever = () => (endless = run(process.execPath, ['-e', 'setInterval(() => {}, 1e6)']));
  const failing = () => run(process.execPath, ['-e', 'process.exit(3)']);
  const unrelated = run(process.execPath, ['-e', 'setTimeout(() => {}, 500)']);
  await assert.rejects(
    runParallel(forever, () => runParallel(failing)),
    (/** @type {CommandFailed} */ error) => error.code === 3,
  );
  await assert.rejects(endless, (/** @type {CommandFailed} */ error) => error.signal === 'SIGTERM');
  await unrelated;
});

test('when several programs are missing, the error names one of them', async () => {
  const missing = (name) => () => run(name, []);
  await assert.rejects(runParallel(missing('missing-one'), missing('missing-two')), /`missing-one` was not found/);
});

test('a missing program is a user error', async () => {
  await assert.rejects(run('missing-program', []), (error) => {
    assert.ok(error instanceof UserError);
    assert.match(error.message, /missing-program.*not found/);
    return true;
  });
});

test('.dev.vars is parsed as wrangler does', (t) => {
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
    "INSIDE=it's # so",
    'COLON: after a colon',
    'EMPTY=',
    'EMPTY_TOO=""',
    '  INDENTED=yes',
    '#COMMENTED=out',
    'URL=https://hub.example.com:8787/?a=b',
    'REFERENCE=$EMPTY ${URL}',
  ];
  const folder = tempDir(t);
  for (const written of [text.join('\n'), text.join('\r\n'), ...text, '']) {
    writeFileSync(path.join(folder, '.dev.vars'), written);
    const bindings = unstable_getVarsForDev(path.join(folder, 'wrangler.toml'), undefined, {}, undefined, true);
    const expected = Object.fromEntries(Object.entries(bindings).map(([name, { value }]) => [name, value]));
    assert.deepEqual(parseDevVars(written), expected, written);
  }
  assert.equal(parseDevVars(text.join('\n')).SINGLE, 'with # and spaces ');
});

test('adapted bindings name each snippet file once, and import the wasm without `source`', () => {
  const entry = (file, name) => `        "./snippets/hub/${file}": ${name},\n`;
  const script = (entries) => `    return {\n        "./index_bg.js": import0,\n${entries}    };\n`;
  const repeatedKeys = script(entry('a.js', 'import1') + entry('b.js', 'import2') + entry('a.js', 'import3'));
  const importLine = (imported) => `import ${imported} from "./index_bg.wasm";\n`;
  assert.equal(
    adaptBindings(importLine('source wasmModule') + repeatedKeys),
    importLine('wasmModule') + script(entry('a.js', 'import1') + entry('b.js', 'import2')),
  );
  assert.throws(() => adaptBindings(importLine('wasmModule') + repeatedKeys), UserError);
});

test('warnings of wrangler about the project are detected', () => {
  assert.equal(isProjectWarning('▲ [WARNING] Duplicate key "./snippets/hub/glue.js" in object literal [duplicate-object-key]'), true);
  assert.equal(isProjectWarning('▲ [WARNING] Processing wrangler.toml configuration:'), true);
  assert.equal(isProjectWarning("▲ [WARNING] Proxy environment variables detected. We'll use your proxy for fetch requests."), false);
  assert.equal(isProjectWarning('Total Upload: 1696.30 KiB / gzip: 647.91 KiB'), false);
});

test('the token of a namespace is derived from the secret as docs/PROTOCOL.md defines', () => {
  // echo -n namespace:team-a | openssl dgst -sha256 -hmac secret -binary | basenc --base64url, without the padding
  assert.equal(namespaceToken('secret', 'team-a'), 'KGbYcyBMT0WEjhBKxiIaSRMyFZ5dLjQOR-o9l8_PBXI:team-a');
  assert.notEqual(namespaceToken('secret', 'team-b'), namespaceToken('secret', 'team-a'));
  // The tests of src/auth/token.rs expect the same token.
  assert.equal(namespaceToken('s3cret', 'team-7', 2), '2.mtLJelEXUwhNSw9omBOclo9NKb0_UBnYt4OO5-6pQWw:team-7');
});

test('a configured browser replaces the default browsers', () => {
  assert.equal(findBrowser(process.execPath), process.execPath);
  assert.equal(findBrowser(path.join(process.execPath, 'nothing')), undefined);
  assert.match(describeOtherVersion('Chromium 99.0.1 built on Debian\n'), /^The browser is Chromium 99\.0\.1 built on Debian; the tests/);
});

test('without the history of git, the test of version skew is skipped, and fails with REQUIRE_PREVIOUS', async (t) => {
  const { PREVIOUS_COMMIT, REQUIRE_PREVIOUS, GIT_DIR } = process.env;
  const set = (variables) => {
    for (const [name, value] of Object.entries(variables)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  };
  t.after(() => set({ PREVIOUS_COMMIT, REQUIRE_PREVIOUS, GIT_DIR }));
  const { skipReason } = CHECKS.find(({ title }) => title === 'Worker of the previous commit');
  const hasSkewTest = () =>
    CHECKS.find(({ title }) => title === 'End-to-end tests')
      .files()
      .includes('tests/e2e/skew.test.mjs');
  set({ PREVIOUS_COMMIT: undefined, REQUIRE_PREVIOUS: undefined, GIT_DIR: path.join(tmpdir(), 'no-such-folder') });
  assert.match(await skipReason(), /previous commit/);
  assert.equal(hasSkewTest(), false);
  set({ REQUIRE_PREVIOUS: '1' });
  assert.equal(skipReason(), undefined);
  assert.equal(hasSkewTest(), true);
  await assert.rejects(
    buildPrevious(() => {}),
    (error) => error instanceof UserError && /previous commit/.test(error.message),
  );
});

test('the wasm of another clone is compiled again, and that of this clone is not', (t) => {
  const folder = tempDir(t);
  const wasm = path.join(folder, 'deps', 'session_gateway_hub.wasm');
  const isKept = (root) => {
    deleteWasmOfOtherClone(folder, root);
    const isThere = existsSync(wasm);
    writeFileSync(wasm, '');
    return isThere;
  };
  mkdirSync(path.dirname(wasm));
  assert.deepEqual(['/one', '/one', '/other', '/one', '/one'].map(isKept), [false, true, false, false, true]);
});

test('the previous version is the newest tag with another worker, else the commit before the last change', (t) => {
  delete process.env.PREVIOUS_COMMIT;
  const root = tempDir(t);
  const options = ['-c', 'user.name=a', '-c', 'user.email=a@example.com', '-c', 'commit.gpgsign=false', '-c', 'tag.gpgsign=false'];
  const git = (...args) => execFileSync('git', ['-C', root, ...options, ...args], { encoding: 'utf8' }).trim();
  const commit = (file, number) => {
    writeFileSync(path.join(root, file), String(number));
    git('add', '.');
    git('commit', '-qm', file);
    return git('rev-parse', 'HEAD');
  };
  git('init', '-q');
  mkdirSync(path.join(root, 'src'));
  const commits = ['Cargo.toml', 'src/lib.rs', 'src/lib.rs', 'README.md'].map(commit);
  assert.deepEqual(findPreviousCommit(root), { commit: commits[1] });
  git('tag', 'v0.9.0', commits[0]);
  git('tag', 'v0.10.0', commits[1]);
  git('tag', 'v0.11.0');
  assert.deepEqual(findPreviousCommit(root), { commit: commits[1] });
  writeFileSync(path.join(root, 'src', 'lib.rs'), 'changed');
  assert.deepEqual(findPreviousCommit(root), { commit: commits[3] });
});
