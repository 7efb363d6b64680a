/** Memory of the runtime process during uploads. Nothing else may use this hub. */

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';
import { streamUpload } from './lib/upload.mjs';

const skip = existsSync('/proc/self/status') ? false : 'the peak memory of a process can only be read on Linux';

const MIB = 1024 * 1024;

/** The largest heap of an isolate, with space for one frame of 50 MiB, but not for two. V8 ends the process above this size. */
process.env.MINIFLARE_WORKERD_V8_FLAGS = '--max-old-space-size=80';

/**
 * The memory that the process keeps after an upload, as a multiple of the body: the string in V8's heap until its garbage collection, and
 * two buffers in the allocator. The local runtime copies a message twice between an object and the client, so an object that only sends
 * such a string takes 3.1 bodies. The rest is fragmentation.
 */
const KEPT_BODIES = 4;

/** The peak, as a multiple of the body: for an instant, the upload's buffer and the frame are in memory, besides the runtime's two copies. */
const PEAK_BODIES = 5;

test('ten uploads of 49 MB, one after another, need a heap for one frame, and leave nothing behind', { skip }, async (t) => {
  const hub = await startHub(t);
  const { session, cli } = await liveSession(t, hub, { tag: 'memory', tokenIn: 'header' });
  await cli.serve('uploadFile', ({ content }) => ({ success: true, length: content.length }));
  const uploadBody = (bytes) => JSON.stringify({ filename: 'a', mimeType: 'b', content: randomBytes(bytes).toString('base64') });
  const upload = async (raw) => {
    await cli.keepAlive(session.id);
    const { status, text } = await hub.web().post(`/api/sessions/${session.id}/upload`, undefined, { raw });
    assert.equal(status, 200, text);
  };
  await upload(uploadBody(1000));
  const before = hub.readMemory().now;
  const body = uploadBody(49 * MIB);
  const growth = [];
  for (let count = 0; count < 10; count++) {
    await upload(body);
    growth.push((hub.readMemory().now - before) / body.length);
  }
  const peak = (hub.readMemory().peak - before) / body.length;
  const growthInBodies = growth.map((times) => times.toFixed(2)).join(' ');
  t.diagnostic(`growth after each upload, in bodies of ${body.length} bytes: ${growthInBodies}; peak ${peak.toFixed(2)}`);
  assert.ok(Math.max(...growth) <= KEPT_BODIES, `the memory grew by ${growthInBodies} bodies`);
  assert.ok(peak <= PEAK_BODIES, `the memory grew by ${peak} bodies for an instant`);
});

/** The memory for four uploads in chunks, and the garbage of the strings that were sent, which V8 collects at its own pace. */
const CHUNKS_GROWTH = 64 * MIB;

test('four concurrent uploads of 100 MB in chunks take at most 64 MiB together', { skip }, async (t) => {
  const hub = await startHub(t, { vars: { MAX_UPLOAD_MB: '100' } });
  const sessions = await Promise.all(
    ['a', 'b', 'c', 'd'].map(async (namespace) => {
      const { session, cli } = await liveSession(t, hub, {
        namespace,
        tag: 'chunks',
        tokenIn: 'header',
        auth: { features: ['upload-chunks'] },
      });
      await cli.serve('uploadFile', () => ({ success: false }));
      await cli.serve('uploadChunk', () => ({ success: true }));
      return { namespace, route: `/api/sessions/${session.id}/upload` };
    }),
  );
  const uploadAll = (size) => Promise.all(sessions.map(({ namespace, route }) => streamUpload(hub, route, { namespace, size })));
  await uploadAll(1000);
  const before = hub.readMemory().now;
  const answers = await uploadAll(100 * MIB);
  assert.deepEqual(pluck(answers, 'status'), [200, 200, 200, 200], JSON.stringify(answers));
  const growth = hub.readMemory().peak - before;
  t.diagnostic(`the peak is ${(growth / MIB).toFixed(1)} MiB above the memory before`);
  assert.ok(growth <= CHUNKS_GROWTH, `the memory grew by ${growth} bytes`);
});
