/** Tests of the JavaScript functions of the worker for the bodies of requests and responses. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { requestOf } from './fake-body.mjs';
import { createResponse, discardBody, parseHeaders, readBody, streamedResponse } from './glue.js';

/** The chunks of a body that then stalls until it is cancelled. */
function stallingChunks(...chunks) {
  const { promise, resolve } = Promise.withResolvers();
  return {
    next: async () => (chunks.length > 0 ? { value: chunks.shift() } : promise),
    return: () => resolve({ done: true }),
  };
}

describe('the rest of a refused body', () => {
  /** A request whose body has `chunkCount` chunks of 1,000 bytes, and then ends or pauses. */
  function refusedRequest(chunkCount, { pauses = false } = {}) {
    const counts = { sent: 0, cancelled: false };
    const body = new ReadableStream({
      pull(controller) {
        if (counts.sent < chunkCount) {
          counts.sent += 1;
          controller.enqueue(new Uint8Array(1_000));
        } else if (!pauses) controller.close();
      },
      cancel: () => void (counts.cancelled = true),
    });
    return { counts, request: { body } };
  }

  test('is discarded to its end, or until the client pauses', async () => {
    for (const { chunks, pauses, idleMs } of [
      { chunks: 50, pauses: false, idleMs: 60_000 },
      { chunks: 3, pauses: true, idleMs: 10 },
    ]) {
      const { counts, request } = refusedRequest(chunks, { pauses });
      await discardBody(request, 1_000_000, idleMs, 60_000);
      assert.deepEqual(counts, { sent: chunks, cancelled: pauses });
    }
  });

  test('is discarded up to a limit', async () => {
    const { counts, request } = refusedRequest(Infinity);
    await discardBody(request, 10_000, 60_000, 60_000);
    assert.equal(counts.cancelled, true);
    assert.ok(counts.sent >= 11 && counts.sent <= 13, `${counts.sent}`);
  });

  test('is no longer read after a total time, even if the client sends steadily', async () => {
    let cancelled = false;
    const body = new ReadableStream({
      pull: (controller) => new Promise((resolve) => setTimeout(resolve, 1)).then(() => controller.enqueue(new Uint8Array(1))),
      cancel: () => void (cancelled = true),
    });
    await discardBody({ body }, 1_000_000, 60_000, 20);
    assert.equal(cancelled, true);
  });

  test('is not read if another function reads it or there is none', async () => {
    const { counts, request } = refusedRequest(3);
    request.body.getReader();
    await discardBody(request, 1_000_000, 10, 60_000);
    assert.equal(counts.cancelled, false);
    await discardBody({ body: null }, 1, 1, 1);
  });
});

describe('the body of a request', () => {
  const KIB = 1024;
  const LIMIT = 8 * KIB * KIB;
  const read = (chunks, declared, reserve = async () => true) =>
    readBody(requestOf(chunks), declared, LIMIT, 64 * KIB, 15_000, 120_000, reserve);

  test('is read completely with and without a declared length', async () => {
    for (const length of [0, 1, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 128 * KIB, 1_000_000]) {
      const bytes = new Uint8Array(length).map((_, at) => at);
      for (const declared of [undefined, length]) {
        const chunks = [bytes.subarray(0, length / 3), bytes.subarray(length / 3)];
        assert.deepEqual(await read(chunks.values(), declared), bytes, `${length} bytes of ${declared}`);
      }
    }
  });

  test('reserves no memory if its declared length is small', async () => {
    const refuse = () => assert.fail('must not be called');
    for (const length of [0, 1, 64 * KIB - 1]) {
      const bytes = new Uint8Array(length);
      assert.deepEqual(await read([bytes].values(), length, refuse), bytes);
      assert.equal(await read([new Uint8Array(100 * KIB)].values(), length, refuse), 'too-large');
    }
  });

  test('allocates memory for the received bytes, not for the declared length', async () => {
    const { promise, resolve } = Promise.withResolvers();
    const request = requestOf({ next: () => promise });
    const pending = readBody(request, LIMIT, LIMIT, 64 * KIB, 15_000, 120_000, undefined);
    resolve({ done: true });
    assert.deepEqual([(await pending).length, request.reads], [0, [64 * KIB]]);
  });

  test('is refused if there is no memory for the received bytes', async () => {
    const reserved = [];
    const bytes = new Uint8Array(200 * KIB);
    await read([bytes].values(), LIMIT, async (count) => reserved.push(count) > 0);
    assert.deepEqual(reserved, [128 * KIB, 256 * KIB]);
    assert.equal(await read([bytes].values(), LIMIT, async (count) => count <= 128 * KIB), 'overloaded');
  });

  test('fails when it takes too long, even if the client sends steadily', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
    const { promise: cancelled, resolve: cancel } = Promise.withResolvers();
    let chunks = 0;
    const steady = {
      next: async () => {
        if (++chunks > 8) await cancelled;
        t.mock.timers.tick(14_000);
        return { done: false, value: new Uint8Array(64 * KIB) };
      },
      return: () => cancel(),
    };
    const pending = read(steady, LIMIT);
    while (chunks <= 8) await new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(8_000);
    assert.equal(await pending, 'stalled');
  });

  test('fails when the client stalls or disconnects', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    for (const declared of [undefined, LIMIT]) {
      const stalled = read(stallingChunks(new Uint8Array(10)), declared);
      await new Promise((resolve) => setImmediate(resolve));
      t.mock.timers.tick(15_000);
      assert.equal(await stalled, 'stalled');
    }
    const gone = { next: async () => Promise.reject(new Error('Network connection lost.')) };
    assert.equal(await read(gone, 10), 'broken');
  });
});

/** Node has no `IdentityTransformStream`. */
Object.assign(globalThis, { IdentityTransformStream: TransformStream });

/** Streams a response of some chunks. */
function stream(chunks) {
  const state = { written: 0, dropped: false };
  const next = (more) => {
    if (!more) state.dropped = true;
    return more && state.written < chunks ? new Uint8Array([state.written++]) : undefined;
  };
  let finished;
  const streamed = streamedResponse(200, '', next, { waitUntil: (work) => (finished = work) }, 40 * 64 * 1024);
  return { state, streamed, finished };
}

describe('a streamed response', () => {
  test('is written as the client reads', async () => {
    const { state, streamed, finished } = stream(20);
    assert.ok(state.written < 3, `${state.written} were written unread`);
    assert.equal((await streamed.arrayBuffer()).byteLength, 20);
    await finished;
    assert.deepEqual(state, { written: 20, dropped: false });
  });

  test('is dropped when the client disconnects', async () => {
    const { state, streamed, finished } = stream(20);
    await streamed.body.cancel();
    await finished;
    assert.equal(state.dropped, true);
  });

  test('is aborted when the client reads each chunk in time, but the whole response too slowly', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const { state, streamed, finished } = stream(20);
    const reader = streamed.body.getReader();
    for (let ms = 0; ms < 100_000; ms += 25_000) {
      assert.equal(state.dropped, false);
      await reader.read();
      await new Promise((resolve) => setImmediate(resolve));
      t.mock.timers.tick(25_000);
    }
    await finished;
    assert.equal(state.dropped, true);
  });

  test('is aborted a few seconds after it began if nobody reads it, and a minute after the last read otherwise', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    for (const [reads, ms] of [
      [0, 8_000],
      [1, 60_000],
    ]) {
      const { state, streamed, finished } = stream(20);
      const reader = streamed.body.getReader();
      for (let read = 0; read < reads; read += 1) await reader.read();
      await new Promise((resolve) => setImmediate(resolve));
      t.mock.timers.tick(ms - 1);
      await new Promise((resolve) => setImmediate(resolve));
      assert.equal(state.dropped, false);
      t.mock.timers.tick(1);
      await finished;
      assert.equal(state.dropped, true);
      await assert.rejects(async () => {
        while (!(await reader.read()).done);
      }, /does not read/);
    }
  });
});

test('a response has its own headers, not the headers of the previous response', async () => {
  const json = 'content-type\napplication/json\n';
  const busy = `${json}retry-after\n1\n`;
  for (const headers of [json, busy, json, json, '']) {
    const result = createResponse(200, headers, new TextEncoder().encode('{}'));
    assert.deepEqual([...result.headers], parseHeaders(headers));
    assert.equal(await result.text(), '{}');
  }
  assert.equal(createResponse(204, '', new Uint8Array(0)).body, null);
});
