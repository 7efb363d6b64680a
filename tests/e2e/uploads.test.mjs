/** Uploads from a web client, through the worker and the object, to a CLI with the official client. */

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { deferred, withTimeout } from '../../scripts/lib/await.mjs';
import { connectCli, liveSession } from '../../scripts/product/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';
import { Lifetime } from './lib/lifetime.mjs';

const MB = 1024 * 1024;
const MAX_FILE = 50 * MB;

const hub = await startHub({ after });

const digestOf = (bytes) => createHash('sha256').update(bytes).digest('hex');
const uploadBody = (bytes, fields = {}) => ({
  filename: 'a.bin',
  mimeType: 'application/octet-stream',
  content: bytes.toString('base64'),
  ...fields,
});

/** The CLI's handler of uploads, which returns a digest of the received file. */
const handleUpload = ({ filename, mimeType, content }) => {
  const bytes = Buffer.from(content, 'base64');
  return { success: true, path: `/uploads/${filename}`, mimeType, size: bytes.length, digest: digestOf(bytes) };
};

/** Starts a session whose CLI serves uploads, and returns the path of its upload route. */
async function uploadSession(t, tag, options = {}) {
  const { session, cli } = await liveSession(t, hub, { tag, ...options });
  await cli.serve('uploadFile', handleUpload);
  return { session, cli, path: `/api/sessions/${session.id}/upload` };
}

for (const tokenIn of ['header', 'connect']) {
  describe(`a file for a CLI with its token in ${tokenIn === 'header' ? 'a header' : 'CONNECT'}`, () => {
    const suite = new Lifetime();
    let target;
    before(async () => (target = await uploadSession(suite, `sizes-${tokenIn}`, { tokenIn })));
    after(() => suite.end());

    for (const size of [0, 1, 2, 3, 1000, MB + 1, MAX_FILE]) {
      test(`of ${size} bytes arrives unchanged`, async () => {
        const bytes = randomBytes(size);
        const answer = await hub.web().post(target.path, uploadBody(bytes, { filename: 'grüße 😀 "x".bin' }));
        assert.equal(answer.status, 200, answer.text);
        const expected = { path: '/uploads/grüße 😀 "x".bin', mimeType: 'application/octet-stream', size, digest: digestOf(bytes) };
        assert.deepEqual(answer.body, { success: true, ...expected });
      });
    }
  });
}

describe('a body', () => {
  const suite = new Lifetime();
  let target;
  before(async () => (target = await uploadSession(suite, 'bodies')));
  after(() => suite.end());

  const bytes = Buffer.from([0, 251, 255, 190, 63, 62]);
  const content = bytes.toString('base64');
  const valid = {
    'with the content first': `{"content":"${content}","filename":"f","mimeType":"m"}`,
    'with white space and unknown fields': ` {\n "x":{"content":"no"} ,"filename" : "f" ,"content":"${content}", "mimeType":"m","y":[1,{"z":"]"}] }\n`,
    'with escapes in its base64': `{"filename":"f","content":"${content.replaceAll('/', '\\/').replaceAll('+', '\\u002B')}","mimeType":"m"}`,
    'with its keys escaped': `{"\\u0066ilename":"f","c\\u006fntent":"${content}","mimeType":"m"}`,
  };
  for (const [what, raw] of Object.entries(valid)) {
    test(`${what} is accepted`, async () => {
      const answer = await hub.web().post(target.path, undefined, { raw });
      assert.deepEqual(
        [answer.status, answer.body],
        [200, { success: true, path: '/uploads/f', mimeType: 'm', size: bytes.length, digest: digestOf(bytes) }],
      );
    });
  }

  test('in chunks of unknown length is accepted', async () => {
    const file = randomBytes(5 * MB);
    const answer = await postChunked(target.path, JSON.stringify(uploadBody(file)));
    assert.deepEqual([answer.status, answer.body.digest], [200, digestOf(file)]);
  });

  const invalid = {
    'that is not JSON': ['{"filename":', 400, 'invalid_body'],
    'that is not an object': ['[]', 400, 'invalid_body'],
    'that is empty': ['', 400, 'invalid_body'],
    'that ends inside its content': [`{"filename":"f","mimeType":"m","content":"${content}`, 400, 'invalid_body'],
    'without a file name': [`{"content":"${content}","mimeType":"m"}`, 400, 'invalid_field', 'filename'],
    'without content': ['{"filename":"f","mimeType":"m"}', 400, 'invalid_field', 'content'],
    'whose content is a number': ['{"filename":"f","content":5,"mimeType":"m"}', 400, 'invalid_field', 'content'],
    'with two contents': ['{"filename":"f","content":"","content":"","mimeType":"m"}', 400, 'invalid_field', 'content'],
    'whose content is not base64': ['{"filename":"f","content":"a b=","mimeType":"m"}', 400, 'invalid_field', 'content'],
    'whose file name is too long': [JSON.stringify(uploadBody(bytes, { filename: 'x'.repeat(256) })), 400, 'invalid_field', 'filename'],
    'whose file name has 100 KB': [JSON.stringify(uploadBody(bytes, { filename: 'x'.repeat(100_000) })), 413, 'too_large'],
    'that is not UTF-8': [
      Buffer.concat([Buffer.from('{"filename":"'), Buffer.from([0xff]), Buffer.from('","content":"","mimeType":"m"}')]),
      400,
      'invalid_body',
    ],
  };
  for (const [what, [raw, status, code, field]] of Object.entries(invalid)) {
    test(`${what} is refused`, async () => {
      const answer = await hub.web().post(target.path, undefined, { raw });
      assert.deepEqual([answer.status, answer.body.code, answer.body.field], [status, code, field], answer.text);
    });
  }

  test('with a file of more than 50 MiB is refused, with or without a Content-Length', async () => {
    const raw = JSON.stringify(uploadBody(Buffer.alloc(MAX_FILE + 1)));
    for (const answer of [await hub.web().post(target.path, undefined, { raw }), await postChunked(target.path, raw)]) {
      assert.deepEqual([answer.status, answer.body.code], [413, 'too_large'], answer.text);
    }
  });

  test('that is refused while its client still sends gets the response, not a reset connection', async () => {
    const raw = JSON.stringify(uploadBody(Buffer.alloc(51 * MB)));
    const larger = JSON.stringify(uploadBody(Buffer.alloc(60 * MB)));
    for (const body of [raw, larger]) {
      const answer = await hub.web().post(target.path, undefined, { raw: body });
      assert.deepEqual([answer.status, answer.body.code], [413, 'too_large'], answer.text);
    }
    const missing = await hub.web().post('/api/sessions/none/upload', undefined, { raw });
    assert.deepEqual([missing.status, missing.body.code], [404, 'session_not_found'], missing.text);
    const stranger = await hub.web('default', 'wrong').post(target.path, undefined, { raw });
    assert.deepEqual([stranger.status, stranger.body.code], [401, 'unauthorized'], stranger.text);
    const message = await hub.web().post(target.path.replace('/upload', '/messages'), undefined, { raw });
    assert.deepEqual([message.status, message.body.code], [413, 'body_too_large'], message.text);
  });

  test('that its client aborts does not harm the hub', async () => {
    for (const size of [10, 60_000, MB, 3 * MB, 10, 300_000, 2 * MB]) {
      await abortUpload(target.path, `{"filename":"f","mimeType":"m","content":"${'a'.repeat(size)}`);
      const answer = await hub.web().post(target.path, uploadBody(bytes));
      assert.equal(answer.status, 200, answer.text);
    }
  });
});

describe('a CLI', () => {
  test('that disconnects during an upload fails it with 500, and can upload after it reconnects', async (t) => {
    const { session, cli, path } = await uploadSession(t, 'disconnects');
    const called = deferred();
    await cli.serve('uploadFile', () => {
      called.resolve();
      return new Promise(() => {});
    });
    const upload = hub.web().post(path, uploadBody(randomBytes(20 * MB)));
    await withTimeout(called.promise, 'the upload to arrive');
    cli.terminate();
    const answer = await upload;
    assert.deepEqual([answer.status, answer.body.code], [500, 'upload_failed'], answer.text);

    const reconnected = await connectCli(t, hub, { auth: { sessionId: session.id } });
    await reconnected.keepAlive(session.id);
    await reconnected.serve('uploadFile', handleUpload);
    const file = randomBytes(1000);
    assert.equal((await hub.web().post(path, uploadBody(file))).body.digest, digestOf(file));
  });

  test('that disconnects in the middle of the frame fails the upload with 500', async (t) => {
    const { cli, path } = await uploadSession(t, 'in-the-frame');
    const started = deferred();
    /** @type {any} */ (cli.socket.io.engine.transport).ws._socket.once('data', started.resolve);
    const upload = hub.web().post(path, uploadBody(randomBytes(49 * MB)));
    await withTimeout(started.promise, 'the first bytes of the frame');
    cli.terminate();
    const answer = await upload;
    assert.deepEqual([answer.status, answer.body.code], [500, 'upload_failed'], answer.text);
  });

  test('gets 12 concurrent files unchanged', async (t) => {
    const { path } = await uploadSession(t, 'many');
    const files = Array.from({ length: 12 }, (_, index) => randomBytes((index + 1) * 500_000));
    const answers = await Promise.all(files.map((file) => hub.web().post(path, uploadBody(file))));
    assert.deepEqual(pluck(answers, 'body.digest'), files.map(digestOf));
  });

  test('deletes an uploaded file by its path', async (t) => {
    const { cli, path } = await uploadSession(t, 'deletes');
    await cli.serve('deleteUploadFile', ({ path: file }) => ({ success: file === '/uploads/a' }));
    assert.deepEqual((await hub.web().post(`${path}/delete`, { path: '/uploads/a' })).body, { success: true });
    assert.deepEqual((await hub.web().post(`${path}/delete`, { path: '/uploads/b' })).body, { success: false });
  });
});

/** Sends a body without a Content-Length. */
function postChunked(path, raw) {
  const { promise, resolve, reject } = deferred();
  const request = http.request(`${hub.url}${path}`, { method: 'POST', agent: false, headers: { authorization: `Bearer ${hub.token()}` } });
  request.once('error', reject);
  request.once('response', async (response) => {
    const chunks = [];
    for await (const chunk of response) chunks.push(chunk);
    resolve({ status: response.statusCode, body: JSON.parse(Buffer.concat(chunks).toString()) });
  });
  for (let offset = 0; offset < raw.length; offset += MB) request.write(raw.slice(offset, offset + MB));
  request.end();
  return withTimeout(promise, 'a response', 60_000);
}

/** Sends a part of a body and closes the connection. */
async function abortUpload(path, part) {
  const { promise, resolve } = deferred();
  const headers = { authorization: `Bearer ${hub.token()}`, 'content-length': 10 * part.length };
  const request = http.request(`${hub.url}${path}`, { method: 'POST', agent: false, headers });
  request.once('error', resolve);
  request.once('close', resolve);
  request.write(part, () => request.destroy());
  await withTimeout(promise, 'the request to be aborted');
}
