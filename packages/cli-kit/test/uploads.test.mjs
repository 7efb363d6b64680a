import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { safeName, createUploads } from '../src/uploads.mjs';
import { tempDir } from './support/repository.mjs';

test('an uploaded file gets a unique name, and can be deleted', async (t) => {
  const folder = path.join(tempDir(t), 'uploads', 'one');
  const uploads = createUploads(folder).methods;
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
  const uploads = createUploads(folder).methods;
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
  const uploads = createUploads(path.join(tempDir(t), 'uploads')).methods;
  for (const content of ['%%%%', 'AAA$', 'A', 'AAAA=AAA']) {
    await assert.rejects(uploads.uploadFile({ filename: 'a', content }), /not valid base64/, content);
  }
  await assert.rejects(uploads.uploadFile({ content: '' }), /"filename" is missing/);
  await assert.rejects(uploads.uploadFile({ filename: 'a' }), /"content" must be/);
  await assert.rejects(uploads.uploadFile({ filename: 'a', content: 'A'.repeat(70 * 1024 * 1024) }), /larger than the limit of 50 MB/);
});

test('only files of the folder can be deleted', async (t) => {
  const base = tempDir(t);
  const folder = path.join(base, 'uploads');
  const uploads = createUploads(folder).methods;
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

describe('a file in chunks', () => {
  const bytes = Buffer.from(Uint8Array.from({ length: 3000 }, (_, at) => at % 251));
  const chunk = (from, to, fields = {}) => ({
    uploadId: 'u1',
    offset: from,
    content: bytes.subarray(from, to).toString('base64'),
    last: false,
    ...fields,
  });
  const last = (from, fields = {}) => chunk(from, bytes.length, { last: true, filename: '../plan.pdf', mimeType: '', ...fields });

  function setUp(t) {
    const folder = path.join(tempDir(t), 'uploads');
    const { methods, discardPartialFiles } = createUploads(folder);
    return { folder, uploadChunk: methods.uploadChunk, discardPartialFiles };
  }

  test('gets its name with the last chunk', async (t) => {
    const { folder, uploadChunk } = setUp(t);
    assert.deepEqual(await uploadChunk(chunk(0, 1500)), { success: true });
    assert.match(readdirSync(folder).join(), /^\..*\.part$/);
    const result = await uploadChunk(last(1500));
    assert.deepEqual([result.success, result.size, path.dirname(result.path)], [true, bytes.length, folder]);
    assert.deepEqual(readdirSync(folder), [path.basename(result.path)]);
    assert.match(result.path, /plan\.pdf$/);
    assert.ok(readFileSync(result.path).equals(bytes));
    assert.equal(statSync(result.path).mode & 0o777, 0o600);
  });

  test('may be empty or have one chunk, and others may arrive between its chunks', async (t) => {
    const { uploadChunk } = setUp(t);
    await uploadChunk(chunk(0, 1500));
    const empty = await uploadChunk({ uploadId: 'u2', offset: 0, content: '', last: true, filename: 'empty' });
    assert.equal(statSync(empty.path).size, 0);
    const whole = await uploadChunk(last(0, { uploadId: 'u3' }));
    const { path: file } = await uploadChunk(last(1500));
    for (const name of [file, whole.path]) assert.ok(readFileSync(name).equals(bytes));
  });

  /** @type {Record<string, [import('../src/uploads.mjs').Chunk, RegExp]>} */
  const faults = {
    'with a gap': [chunk(1800, 2400), /offset 1800, but 1500/],
    'sent twice': [chunk(0, 1500), /offset 0, but 1500/],
    'that is not base64': [chunk(1500, 1500, { content: '%%%%' }), /not valid base64/],
    'without content': [chunk(1500, 1500, { content: undefined }), /must be base64 text/],
    'that is the last and has no name': [last(1500, { filename: '' }), /"filename" is missing/],
  };
  for (const [what, [fault, error]] of Object.entries(faults)) {
    test(`is discarded after a chunk ${what}`, async (t) => {
      const { folder, uploadChunk } = setUp(t);
      await uploadChunk(chunk(0, 1500));
      await assert.rejects(uploadChunk(fault), error);
      assert.deepEqual(readdirSync(folder), []);
      await assert.rejects(uploadChunk(last(1500)), /upload is unknown/);
    });
  }

  test('is discarded by an abort, which may name an unknown upload', async (t) => {
    const { folder, uploadChunk } = setUp(t);
    await uploadChunk(chunk(0, 1500));
    for (const uploadId of ['u1', 'u1', 'unknown']) {
      assert.deepEqual(await uploadChunk({ uploadId, abort: true }), { success: true });
    }
    assert.deepEqual(readdirSync(folder), []);
    await assert.rejects(uploadChunk({ abort: true }), /"uploadId" is missing/);
  });

  test('is discarded when the connection is lost or the process was killed, unlike complete files', async (t) => {
    const { folder, uploadChunk, discardPartialFiles } = setUp(t);
    await discardPartialFiles();
    const complete = await uploadChunk(last(0, { uploadId: 'u2' }));
    await uploadChunk(chunk(0, 1500));
    writeFileSync(path.join(folder, '.killed.part'), '');
    await discardPartialFiles();
    assert.deepEqual(readdirSync(folder), [path.basename(complete.path)]);
    await assert.rejects(uploadChunk(last(1500)), /upload is unknown/);
  });
});
