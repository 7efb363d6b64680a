/** What uploads cost the runtime. A file of its own: nothing else may use the memory of this runtime. */

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { liveSession } from './lib/cli.mjs';
import { startHub } from './lib/hub.mjs';

const skip = existsSync('/proc/self/status') ? false : 'the peak of a process can be read on Linux only';

test('ten uploads of 49 MB one after another take three times the body of one, and no more', { skip }, async (t) => {
  const hub = await startHub();
  t.after(() => hub.stop());
  const { session, cli } = await liveSession(t, hub, { tag: 'memory', way: 'header' });
  await cli.serve('uploadFile', ({ content }) => ({ success: true, length: content.length }));
  const bodyOf = (bytes) => JSON.stringify({ filename: 'a', mimeType: 'b', content: randomBytes(bytes).toString('base64') });
  const upload = async (raw) => {
    await cli.keepAlive(session.id);
    const { status, text } = await hub.web().post(`/api/sessions/${session.id}/upload`, undefined, { raw });
    assert.equal(status, 200, text);
  };
  await upload(bodyOf(1000));
  const before = hub.memory().now;
  const body = bodyOf(49 * 1024 * 1024);
  const grown = [];
  for (let count = 0; count < 10; count++) {
    await upload(body);
    grown.push((hub.memory().now - before) / body.length);
  }
  const peak = (hub.memory().peak - before) / body.length;
  const shown = grown.map((times) => times.toFixed(2)).join(' ');
  t.diagnostic(`growth after each, in bodies of ${body.length} bytes: ${shown}; at its peak ${peak.toFixed(2)}`);
  assert.ok(Math.max(...grown) <= 3, `the memory grew by ${shown} bodies`);
  const later = Math.max(...grown.slice(5)) - Math.max(...grown.slice(0, 5));
  assert.ok(later <= 0.5, `one after another they grew it: ${shown}`);
});
