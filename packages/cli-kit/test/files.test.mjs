import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { MAX_READ_BYTES, checkPaths, fileMethods } from '../src/files.mjs';
import { isInside } from '../src/paths.mjs';
import { tempDir } from './support/repository.mjs';

/** A served directory with links of every kind, next to files that must not be readable. */
function setUp(t) {
  const base = tempDir(t);
  const root = path.join(base, 'served');
  mkdirSync(path.join(root, 'folder'), { recursive: true });
  mkdirSync(path.join(base, 'served-too'));
  writeFileSync(path.join(base, 'secret.txt'), 'secret');
  writeFileSync(path.join(base, 'served-too', 'secret.txt'), 'secret');
  writeFileSync(path.join(root, 'plain.txt'), 'plain');
  symlinkSync('../secret.txt', path.join(root, 'out'));
  symlinkSync('..', path.join(root, 'up'));
  symlinkSync('folder', path.join(root, 'in'));
  symlinkSync('nowhere', path.join(root, 'broken'));
  symlinkSync('loop', path.join(root, 'loop'));
  return { base, root };
}

test('a file is read as base64 of its bytes', async (t) => {
  const { root } = setUp(t);
  const bytes = Buffer.from([0, 255, 10, 195, 40]);
  writeFileSync(path.join(root, 'folder', 'bytes'), bytes);
  const files = fileMethods(root);
  assert.deepEqual(await files.readFile({ path: 'folder/bytes' }), {
    success: true,
    content: bytes.toString('base64'),
    size: 5,
  });
  assert.equal((await files.readFile({ path: 'in/bytes' })).content, bytes.toString('base64'));
});

test("the session's uploads can be read, and no other file beside them", async (t) => {
  const { base, root } = setUp(t);
  const uploads = path.join(base, 'uploads', 'one');
  mkdirSync(path.join(uploads, 'folder'), { recursive: true });
  mkdirSync(path.join(base, 'uploads', 'two'));
  for (const file of ['one/a.png', 'one/folder/b.png', 'two/c.png']) writeFileSync(path.join(base, 'uploads', file), 'upload');
  symlinkSync('../../secret.txt', path.join(uploads, 'link'));
  const { readFile } = fileMethods(root, uploads);
  assert.deepEqual(await readFile({ path: '.uploads/a.png' }), { success: true, content: btoa('upload'), size: 6 });
  for (const name of ['c.png', 'folder', 'folder/b.png', 'link', '', '.', 'a.png\0', 'nowhere.png'])
    await assert.rejects(readFile({ path: `.uploads/${name}` }), /No such file|NUL/, name);
  for (const name of ['../two/c.png', '..', '..\\two\\c.png'])
    await assert.rejects(readFile({ path: `.uploads/${name}` }), /must not contain "\.\."/, name);
  mkdirSync(path.join(root, '.uploads'));
  writeFileSync(path.join(root, '.uploads', 'own.txt'), 'own');
  assert.equal((await readFile({ path: '.uploads/own.txt' })).content, btoa('own'));
});

/** @type {[unknown, RegExp][]} */
const REFUSED = [
  ['../secret.txt', /must not contain "\.\."/],
  ['folder/../../secret.txt', /must not contain "\.\."/],
  ['folder\\..\\..\\secret.txt', /must not contain "\.\."/],
  ['/etc/passwd', /must be relative/],
  ['plain.txt\0', /NUL/],
  ['out', /leads outside/],
  ['up/secret.txt', /leads outside/],
  ['up/served-too/secret.txt', /leads outside/],
  ['broken', /No such file/],
  ['caf\uFFFD.txt', /is not UTF-8/],
  ['loop', /too many symbolic links/],
  ['plain.txt/below', /No such file/],
  [7, /must be a string/],
  [undefined, /must be a string/],
];

for (const [requestedPath, reason] of REFUSED) {
  test(`reading ${JSON.stringify(requestedPath)} is refused`, async (t) => {
    const { root } = setUp(t);
    await assert.rejects(fileMethods(root).readFile({ path: requestedPath }), reason);
  });
}

test('reading a folder, a pipe or a file above the limit fails with the reason', async (t) => {
  const { root } = setUp(t);
  execFileSync('mkfifo', [path.join(root, 'pipe')]);
  writeFileSync(path.join(root, 'large'), '');
  truncateSync(path.join(root, 'large'), MAX_READ_BYTES + 1);
  const files = fileMethods(root);
  await assert.rejects(files.readFile({ path: 'folder' }), /folder is a directory/);
  await assert.rejects(files.readFile({ path: 'pipe' }), /not a regular file/);
  await assert.rejects(files.readFile({ path: 'large' }), /too large to read: 20\.0 MB; the limit is 20 MB/);
});

test('a listing has directories first, sizes of files, and nothing about the target of a link that leads outside', async (t) => {
  const { root } = setUp(t);
  const { success, entries } = await fileMethods(root).listDirectory({ path: '' });
  assert.equal(success, true);
  assert.deepEqual(entries, [
    { name: 'folder', type: 'directory' },
    { name: 'in', type: 'directory', link: true },
    { name: 'broken', type: 'file', link: true },
    { name: 'loop', type: 'file', link: true },
    { name: 'out', type: 'file', link: true },
    { name: 'plain.txt', type: 'file', size: 5 },
    { name: 'up', type: 'file', link: true },
  ]);
  await assert.rejects(fileMethods(root).listDirectory({ path: 'up' }), /leads outside/);
  await assert.rejects(fileMethods(root).listDirectory({ path: 'plain.txt' }), /plain\.txt is not a directory/);
});

test('a long listing comes in sorted pages that say how many entries follow', async (t) => {
  const { root } = setUp(t);
  const folder = path.join(root, 'folder');
  for (let index = 0; index < 10_003; index += 1) writeFileSync(path.join(folder, `file-${index}`), '');
  mkdirSync(path.join(folder, 'z-directory'));
  symlinkSync('z-directory', path.join(folder, 'z-link'));
  const { listDirectory } = fileMethods(root);
  const firstPage = await listDirectory({ path: 'folder' });
  assert.deepEqual([firstPage.entries.length, firstPage.more, firstPage.truncated], [10_000, 5, true]);
  const lastPage = await listDirectory({ path: 'folder', offset: 10_000 });
  assert.deepEqual([lastPage.entries.length, lastPage.more, lastPage.truncated], [5, undefined, undefined]);
  const names = [...firstPage.entries, ...lastPage.entries].map(({ name }) => name);
  assert.deepEqual(names.slice(0, 2), ['z-directory', 'z-link']);
  assert.deepEqual(names.slice(2), Array.from({ length: 10_003 }, (_, index) => `file-${index}`).sort());
  for (const offset of [-1, 1.5, '1', null]) assert.equal((await listDirectory({ path: 'folder', offset })).entries[0].name, 'z-directory');
});

test('in a directory with more than 10,000 links, those to directories are listed among the files', async (t) => {
  const { root } = setUp(t);
  const folder = path.join(root, 'folder');
  for (const name of ['directory', 'z-directory']) mkdirSync(path.join(folder, name));
  for (let index = 0; index < 10_000; index += 1) symlinkSync('nowhere', path.join(folder, `link-${index}`));
  symlinkSync('directory', path.join(folder, 'z-link'));
  const { listDirectory } = fileMethods(root);
  const names = async (offset) => (await listDirectory({ path: 'folder', offset })).entries.map(({ name }) => name);
  assert.deepEqual((await names(0)).slice(0, 3), ['directory', 'z-directory', 'link-0']);
  const { entries } = await listDirectory({ path: 'folder', offset: 10_000 });
  assert.deepEqual(entries.at(-1), { name: 'z-link', type: 'directory', link: true });
});

test('a directory whose name has the same prefix is not inside', () => {
  assert.equal(isInside('/a/b', '/a/bc'), false);
  assert.equal(isInside('/a/b', '/a/b/..c'), true);
  assert.equal(isInside('/', '/etc'), true);
});

test('an existence check finds directories that the machine serves, and nothing else', async (t) => {
  const { base, root } = setUp(t);
  const [other, inside] = [path.join(base, 'other'), path.join(root, 'sub')];
  for (const folder of [other, inside]) mkdirSync(folder, { recursive: true });
  const found = async (directories, ...paths) =>
    Object.entries(await checkPaths(directories, paths))
      .filter(([, exists]) => exists)
      .map(([name]) => name);
  assert.deepEqual(await found([root], root, inside, 'sub', '.'), [root, inside, 'sub', '.']);
  // Files, missing paths, invalid names, and existing paths outside of the directory, also behind the link `up`.
  assert.deepEqual(
    await found([root], 'plain.txt', 'nothing', '', 'a\0b', '__proto__', 'up', '/', '/etc/passwd', '~', base, other, '../other'),
    [],
  );
  assert.deepEqual(await found([root, other], other, '../other'), [other, '../other']);
  await assert.rejects(checkPaths([root], 'plain.txt'), /array of strings/);
  await assert.rejects(checkPaths([root], Array(1001).fill('a')), /at most 1000/);
});
