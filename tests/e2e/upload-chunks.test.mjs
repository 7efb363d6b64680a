/** Uploads in chunks, to the official client and to the example agent. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createReadStream, readdirSync } from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { startAgent } from './lib/agent.mjs';
import { Recorder, deferred, withTimeout } from '../../scripts/lib/await.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { startHub } from './lib/hub.mjs';
import { streamUpload } from './lib/upload.mjs';

const MB = 1024 * 1024;
const hub = await startHub({ after }, { vars: { MAX_UPLOAD_MB: '64' } });

/** Starts a session whose CLI computes the digest of a file in chunks. `calls` has the params of all calls, without content. */
async function chunkSession(t, tag, /** @type {{answer?: (params: any) => unknown}} */ { answer = () => ({ success: true }) } = {}) {
  const { session, cli } = await liveSession(t, hub, { tag, auth: { features: ['upload-chunks'] } });
  const calls = new Recorder('the calls of uploadChunk');
  const hashes = new Map();
  await cli.serve('uploadFile', () => ({ success: false, error: 'not in chunks' }));
  await cli.serve('uploadChunk', ({ content, ...params }) => {
    calls.push(params);
    if (params.abort) return { success: true };
    const hash = hashes.get(params.uploadId) ?? createHash('sha256');
    hashes.set(params.uploadId, hash.update(Buffer.from(content, 'base64')));
    return params.last ? { success: true, path: `/uploads/${params.filename}`, digest: hash.digest('hex') } : answer(params);
  });
  return { session, cli, calls, path: `/api/sessions/${session.id}/upload` };
}

async function digestOf(file) {
  const hash = createHash('sha256');
  for await (const bytes of createReadStream(file)) hash.update(bytes);
  return hash.digest('hex');
}

test('64 MB reach the example agent unchanged, and a file above the limit leaves nothing behind', async (t) => {
  const [dir, home] = [temporaryFolder(t), temporaryFolder(t)];
  const agent = await startAgent(t, hub, { dir, home, args: ['--no-machine'] });
  const route = `/api/sessions/${agent.sessionId}/upload`;
  const { status, body, digest } = await streamUpload(hub, route, { size: 64 * MB });
  assert.equal(status, 200, JSON.stringify(body));
  assert.deepEqual([body.success, body.size], [true, 64 * MB]);
  assert.equal(await digestOf(body.path), digest);

  const tooLarge = await streamUpload(hub, route, { size: 64 * MB + 1 });
  assert.deepEqual([tooLarge.status, tooLarge.body.code], [413, 'too_large']);
  const deleted = await hub.web().post(`${route}/delete`, { path: body.path });
  assert.deepEqual(deleted.body, { success: true });
  assert.deepEqual(readdirSync(path.dirname(body.path)), []);
});

test('a body with its content first arrives unchanged', async (t) => {
  const { path: route, calls } = await chunkSession(t, 'order');
  const { body, digest } = await streamUpload(hub, route, { size: 3 * MB + 1, contentFirst: true });
  assert.deepEqual(body, { success: true, path: '/uploads/large.bin', digest });
  assert.deepEqual(
    pluck(calls.all, 'offset', 'last'),
    Array.from({ length: 9 }, (_, n) => [n * 393_216, n === 8]),
  );
});

test('CLIs with and without chunks get a file at the same time; only the CLI with chunks gets a file above 50 MiB', async (t) => {
  const chunked = await chunkSession(t, 'chunked');
  const { session, cli } = await liveSession(t, hub, { tag: 'whole', tokenIn: 'header' });
  await cli.serve('uploadFile', ({ content }) => ({ success: true, digest: createHash('sha256').update(content, 'base64').digest('hex') }));
  const whole = `/api/sessions/${session.id}/upload`;
  const answers = await Promise.all([chunked.path, whole].map((route) => streamUpload(hub, route, { size: 30 * MB })));
  assert.deepEqual(pluck(answers, 'body.digest'), pluck(answers, 'digest'));
  const larger = await streamUpload(hub, whole, { size: 51 * MB });
  assert.deepEqual([larger.status, larger.body.code], [413, 'too_large']);
  assert.match(larger.body.error, /does not accept uploads in chunks/);
});

test('a client that disconnects aborts its upload', async (t) => {
  const { path: route, calls } = await chunkSession(t, 'aborted');
  const upload = streamUpload(hub, route, {
    size: 60 * MB,
    onPiece: async (sent, request) => {
      if (sent < 5 * MB) return;
      await calls.first(({ offset }) => offset > MB, 'the third chunk');
      request.destroy();
    },
  });
  await assert.rejects(upload);
  const { uploadId } = calls.all[0];
  const abort = await calls.first((params) => params.abort, 'the abort');
  assert.equal(abort.uploadId, uploadId);
});

test('a CLI that refuses a chunk, or disconnects, ends the upload while its client still sends', async (t) => {
  const refusing = await chunkSession(t, 'refusing', {
    answer: ({ offset }) => (offset > MB ? { success: false, error: 'The disk is full.' } : { success: true }),
  });
  const refused = await streamUpload(hub, refusing.path, { size: 20 * MB });
  assert.deepEqual([refused.status, refused.body], [200, { success: false, error: 'The disk is full.' }]);

  const called = deferred();
  const leaving = await chunkSession(t, 'leaving', {
    answer: () => {
      called.resolve();
      return new Promise(() => {});
    },
  });
  const upload = streamUpload(hub, leaving.path, { size: 20 * MB });
  await withTimeout(called.promise, 'the first chunk');
  leaving.cli.terminate();
  const { status, body } = await upload;
  assert.deepEqual([status, body.code], [500, 'upload_failed'], JSON.stringify(body));
});

test('a slow CLI slows down its client', async (t) => {
  const release = deferred();
  const { path: route, calls } = await chunkSession(t, 'slow', { answer: () => release.promise.then(() => ({ success: true })) });
  let sentBytes = 0;
  const upload = streamUpload(hub, route, { size: 64 * MB, onPiece: (sent) => (sentBytes = sent) });
  await calls.first(() => true, 'the first chunk');
  let before = -1;
  // The socket buffers of the system fill up, then nothing more is sent.
  while (before !== sentBytes) {
    before = sentBytes;
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
  t.diagnostic(`${sentBytes} bytes were sent`);
  assert.ok(sentBytes < 50 * MB, `${sentBytes} bytes were sent while the first chunk was not answered`);
  assert.equal(calls.all.length, 1);
  release.resolve();
  assert.equal((await upload).status, 200);
});
