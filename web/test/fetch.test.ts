// Requests that end.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { fetchWhole } from '../src/api/fetch.ts';

/** Lets promises that are settled be noticed. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A network whose answer the test brings, part by part. */
function network() {
  let begin = () => {};
  let body: ReadableStreamDefaultController<Uint8Array> | undefined;
  mock.method(globalThis, 'fetch', (_input: unknown, { signal }: { signal: AbortSignal }) => {
    const stream = new ReadableStream<Uint8Array>({ start: (controller) => void (body = controller) });
    return new Promise<Response>((resolve, reject) => {
      begin = () => resolve(new Response(stream, { status: 201, headers: { 'content-type': 'application/json', etag: 'x' } }));
      signal.addEventListener('abort', () => {
        reject(signal.reason);
        body?.error(signal.reason);
      });
    });
  });
  return {
    begins: () => begin(),
    brings: (text: string) => body?.enqueue(new TextEncoder().encode(text)),
    ends: () => body?.close(),
    breaks: () => body?.error(new TypeError('network error')),
  };
}
const later = async (ms: number) => {
  await settle();
  mock.timers.tick(ms);
  await settle();
};

beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
afterEach(() => {
  mock.timers.reset();
  mock.restoreAll();
});

test('a request that is never answered fails, as one that does not reach the hub', async () => {
  network();
  const failed = assert.rejects(fetchWhole('http://hub.test/'), { name: 'HubError', status: 0, code: 'unreachable' });
  await later(75_000);
  await failed;
});

test('an answer that stops in the middle fails as well', async () => {
  for (const stop of ['silent', 'broken']) {
    const hub = network();
    const failed = assert.rejects(fetchWhole('http://hub.test/'), { code: 'unreachable' });
    hub.begins();
    hub.brings('{"half":');
    await later(0);
    if (stop === 'broken') hub.breaks();
    else await later(75_000);
    await failed;
  }
});

test('an answer that keeps coming in may take longer, and is whole', async () => {
  const hub = network();
  const asked = fetchWhole('http://hub.test/');
  await later(70_000);
  hub.begins();
  hub.brings('{"a":');
  await later(70_000);
  hub.brings('1}');
  await later(70_000);
  hub.ends();
  const response = await asked;
  assert.deepEqual([response.status, response.headers.get('etag'), await response.json()], [201, 'x', { a: 1 }]);
});

test('an answer without a body is one', async () => {
  mock.method(globalThis, 'fetch', async () => new Response(null, { status: 204 }));
  assert.equal((await fetchWhole('http://hub.test/')).status, 204);
});
