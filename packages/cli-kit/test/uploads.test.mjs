import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { safeName, uploadMethods } from '../src/uploads.mjs';
import { tempDir } from './support/repository.mjs';

test('an uploaded file gets a unique name, and can be deleted', async (t) => {
  const folder = path.join(tempDir(t), 'uploads', 'one');
  const uploads = uploadMethods(folder);
  const content = Buffer.from([0, 1, 254, 255]).toString('base64');
  const first = await uploads.uploadFile({ filename: 'photo.png', content, mimeType: 'image/png' });
  const second = await uploads.uploadFile({ filename: 'photo.png', content, mimeType: 'image/png' });
  assert.equal(first.success, true);
  assert.notEqual(first.path, second.path);
  assert.equal(path.dirname(first.path), folder);
  assert.match(first.path, /photo\.png$/);
  assert.deepEqual([...readFileSync(first.path)], [0, 1, 254, 255]);
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  assert.deepEqual(await uploads.deleteUploadFile({ path: first.path }), { success: true });
  assert.equal(existsSync(first.path), false);
  assert.deepEqual(await uploads.deleteUploadFile({ path: first.path }), {
    success: false,
    error: 'No such uploaded file.',
  });
});

test('no file name leads outside the folder', async (t) => {
  const folder = path.join(tempDir(t), 'uploads');
  const uploads = uploadMethods(folder);
  for (const filename of ['../../evil', '/etc/evil', '..\\evil', '..', '.', 'a\0b', 'ü'.repeat(200), '.bashrc']) {
    const { path: file } = await uploads.uploadFile({ filename, content: '' });
    assert.equal(path.dirname(file), folder);
    assert.equal(existsSync(file), true);
  }
});

test('a long name keeps its extension', () => {
  const name = safeName(`${'x'.repeat(300)}.tar.gz`);
  assert.match(name, /^x+\.gz$/);
  assert.ok(Buffer.byteLength(name) <= 120);
});

test('an upload without a name, with invalid base64 or above the limit is refused', async (t) => {
  const uploads = uploadMethods(path.join(tempDir(t), 'uploads'));
  for (const content of ['%%%%', 'AAA$', 'A', 'AAAA=AAA']) {
    await assert.rejects(uploads.uploadFile({ filename: 'a', content }), /not valid base64/, content);
  }
  await assert.rejects(uploads.uploadFile({ content: '' }), /"filename" is missing/);
  await assert.rejects(uploads.uploadFile({ filename: 'a' }), /"content" must be/);
  await assert.rejects(
    uploads.uploadFile({ filename: 'a', content: 'A'.repeat(70 * 1024 * 1024) }),
    /larger than the limit of 50 MB/,
  );
});

test('only files of the folder can be deleted', async (t) => {
  const base = tempDir(t);
  const folder = path.join(base, 'uploads');
  const uploads = uploadMethods(folder);
  const { path: uploaded } = await uploads.uploadFile({ filename: 'uploaded', content: '' });
  const outside = path.join(base, 'outside.txt');
  writeFileSync(outside, '');
  symlinkSync(outside, path.join(folder, 'link'));
  symlinkSync(base, path.join(folder, 'up'));
  for (const wanted of [
    outside,
    `${folder}/../outside.txt`,
    path.join(folder, 'link'),
    path.join(folder, 'up', 'outside.txt'),
    folder,
    '',
    undefined,
  ]) {
    assert.equal((await uploads.deleteUploadFile({ path: wanted })).success, false, String(wanted));
  }
  assert.ok(existsSync(outside) && existsSync(uploaded));
});
