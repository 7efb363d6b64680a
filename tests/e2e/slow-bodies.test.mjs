/** Bodies that a client sends at the slowest documented rate. The hub accepts such a body even if it takes long. */

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { deferred, withTimeout } from '../../scripts/lib/await.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

/** A client must send this much of a body within 15 s. */
const PART_BYTES = 64 * 1024;
const PAUSE_MS = 13_000;
/** Four pauses are 52 s: longer than the worker waits for an object that has the whole body, which is 50 s. */
const PART_COUNT = 5;

const hub = await startHub({ after });

/** Returns a JSON object of `PART_COUNT` parts, and the long text of its field `name`, which is valid base64. */
function bodyOf(fields, name) {
  const text = 'AAAA'.repeat((PART_COUNT * PART_BYTES) / 4 - 100);
  return { raw: JSON.stringify({ ...fields, [name]: text }), text };
}

/**
 * Sends a body in parts with pauses.
 * @param {string} path
 * @param {string} raw
 * @param {{chunked?: boolean}} [options] `chunked`: without a Content-Length
 * @returns {Promise<{status: number, body: any}>}
 */
async function postSlowly(path, raw, { chunked = false } = {}) {
  const { promise, resolve, reject } = deferred();
  const length = chunked ? {} : { 'content-length': raw.length };
  const headers = { authorization: `Bearer ${hub.token()}`, 'content-type': 'application/json', ...length };
  const request = http.request(`${hub.url}${path}`, { method: 'POST', agent: false, headers });
  request.once('error', reject);
  request.once('response', resolve);
  let isAnswered = false;
  promise.then(
    () => (isAnswered = true),
    () => (isAnswered = true),
  );
  for (let offset = 0; offset < raw.length && !isAnswered; offset += PART_BYTES) {
    if (offset > 0) await Promise.race([sleep(PAUSE_MS), promise]);
    request.write(raw.slice(offset, offset + PART_BYTES));
  }
  request.end();
  const response = await withTimeout(promise, `a response to ${path}`);
  const text = (await response.toArray()).join('');
  return { status: response.statusCode, body: JSON.parse(text) };
}

test('a message and uploads that take 52 s are accepted', async (t) => {
  const { session, cli } = await liveSession(t, hub, { tag: 'slow' });
  await cli.serve('uploadFile', ({ filename, content }) => ({ success: true, path: `/uploads/${filename}`, length: content.length }));
  const path = `/api/sessions/${session.id}`;
  const message = bodyOf({}, 'text');
  const file = bodyOf({ filename: 'slow.bin', mimeType: 'application/octet-stream' }, 'content');
  const uploaded = { success: true, path: '/uploads/slow.bin', length: file.text.length };
  const startedAt = performance.now();
  const answers = await Promise.all([
    postSlowly(`${path}/messages`, message.raw),
    postSlowly(`${path}/messages`, message.raw, { chunked: true }),
    postSlowly(`${path}/upload`, file.raw),
    postSlowly(`${path}/upload`, file.raw, { chunked: true }),
  ]);
  assert.ok(performance.now() - startedAt > 50_000);
  assert.deepEqual(pluck(answers, 'status', 'body.error'), Array(4).fill([200, undefined]));
  assert.deepEqual(pluck(answers.slice(2), 'body'), [uploaded, uploaded]);
  const history = await hub.web().readHistory(session.id);
  assert.deepEqual(
    history.map(({ content }) => content.content.text === message.text),
    [true, true],
  );
});
