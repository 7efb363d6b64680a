// `fetch` with a timeout.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { fetchBuffered } from '../src/api/fetch-buffered.ts';
import { flushPromises } from './support/promises.ts';

/** Replaces `fetch`; the test sends the response part by part. */
function mockFetch() {
  let respond = () => {};
  let body: ReadableStreamDefaultController<Uint8Array> | undefined;
  mock.method(globalThis, 'fetch', (_input: unknown, { signal }: { signal: AbortSignal }) => {
    const stream = new ReadableStream<Uint8Array>({ start: (controller) => void (body = controller) });
    return new Promise<Response>((resolve, reject) => {
      respond = () => resolve(new Response(stream, { status: 201, headers: { 'content-type': 'application/json', etag: 'x' } }));
      signal.addEventListener('abort', () => {
        reject(signal.reason);
        body?.error(signal.reason);
      });
    });
  });
  return {
    respond: () => respond(),
    sendChunk: (text: string) => body?.enqueue(new TextEncoder().encode(text)),
    end: () => body?.close(),
    fail: () => body?.error(new TypeError('network error')),
  };
}
const advance = async (ms: number) => {
  await flushPromises();
  mock.timers.tick(ms);
  await flushPromises();
};

beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
afterEach(() => {
  mock.timers.reset();
  mock.restoreAll();
});

test('fails as unreachable when there is no response', async () => {
  mockFetch();
  const failed = assert.rejects(fetchBuffered('http://hub.test/'), { name: 'HubError', status: 0, code: 'unreachable' });
  await advance(75_000);
  await failed;
});

test('fails as unreachable when the response is incomplete', async () => {
  for (const end of ['silence', 'error']) {
    const hub = mockFetch();
    const failed = assert.rejects(fetchBuffered('http://hub.test/'), { code: 'unreachable' });
    hub.respond();
    hub.sendChunk('{"half":');
    await advance(0);
    if (end === 'error') hub.fail();
    else await advance(75_000);
    await failed;
  }
});

test('waits for a slow response as long as chunks arrive', async () => {
  const hub = mockFetch();
  const request = fetchBuffered('http://hub.test/');
  await advance(70_000);
  hub.respond();
  hub.sendChunk('{"a":');
  await advance(70_000);
  hub.sendChunk('1}');
  await advance(70_000);
  hub.end();
  const response = await request;
  assert.deepEqual([response.status, response.headers.get('etag'), await response.json()], [201, 'x', { a: 1 }]);
});

test('a request can have a shorter timeout', async () => {
  mockFetch();
  const failed = assert.rejects(fetchBuffered('http://hub.test/', {}, 15_000), { code: 'unreachable' });
  await advance(15_000);
  await failed;
});

test('accepts a response without a body', async () => {
  mock.method(globalThis, 'fetch', async () => new Response(null, { status: 204 }));
  assert.equal((await fetchBuffered('http://hub.test/')).status, 204);
});
