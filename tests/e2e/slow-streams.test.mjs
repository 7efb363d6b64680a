/** Event streams whose clients do not read: all of them together hold a limited part of the worker's memory. */

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, test } from 'node:test';
import { deferred, eventually, withTimeout } from './lib/await.mjs';
import { openFeed, resumeFeed } from './lib/channels.mjs';
import { liveSession } from './lib/cli.mjs';
import { startHub } from './lib/hub.mjs';

const MIB = 1024 * 1024;

/** The unread bytes of all streams of an isolate (`MAX_STREAM_BYTES`). */
const BUDGET = 16 * MIB;

const MESSAGES = 16;
const SLOW_CLIENTS = 8;

const hub = await startHub();
after(() => hub.stop());

/**
 * Opens a stream whose client reads nothing until `readAll`.
 * @returns {Promise<{readAll: () => Promise<{text: string, isBroken: boolean}>}>} `readAll` reads what has arrived until `last`, or
 *   until the stream breaks
 */
async function openSlowStream(t, web, sessionId) {
  const { promise, resolve, reject } = deferred();
  const headers = { authorization: `Bearer ${web.token}` };
  const request = http.get(`${hub.url}/api/events?sessionId=${sessionId}`, { headers, agent: false }, resolve);
  request.on('error', reject);
  t.after(() => request.destroy());
  const response = await withTimeout(promise, 'the head of a stream');
  response.pause();
  const readAll = async (last) => {
    let text = '';
    try {
      for await (const data of response.setEncoding('utf8')) {
        text += data;
        if (text.endsWith('\n\n') && text.slice(-600).includes(last)) return { text, isBroken: false };
      }
    } catch {
      return { text, isBroken: true };
    }
    return { text, isBroken: true };
  };
  return { readAll };
}

/** The numbers of the messages in the complete events of a stream. */
const numbersIn = (text) => [...text.matchAll(/"content":\{"n":(\d+),[^\n]*\n\n/g)].map(([, n]) => Number(n));

test('clients that do not read are disconnected, the largest stream first, and the others miss nothing', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'loud', tag: 'loud', tokenIn: 'header' });
  const quiet = await liveSession(t, hub, { namespace: 'quiet', tag: 'quiet', tokenIn: 'header' });
  const web = hub.web('loud');
  const reader = await openFeed(t, web, 'stream', { sessionId: session.id });
  const small = await openSlowStream(t, hub.web('quiet'), quiet.session.id);
  const slow = await Promise.all(Array.from({ length: SLOW_CLIENTS }, () => openSlowStream(t, web, session.id)));
  const before = hub.memory().now;
  for (let n = 1; n <= MESSAGES; n += 1) {
    await quiet.cli.sendMessage(quiet.session.id, { n, padding: '' });
    await cli.sendMessage(session.id, { n, padding: 'x'.repeat(MIB) });
    await reader.next(({ message }) => message?.content.n === n, `message ${n}`);
  }
  const growth = hub.memory().peak - before;
  t.diagnostic(`the process has grown by at most ${(growth / MIB).toFixed(0)} MiB`);

  const last = { n: 'last', padding: '' };
  const streams = await Promise.all([
    ...slow.map(({ readAll }) => readAll('"n":"last"')),
    cli.sendMessage(session.id, last), quiet.cli.sendMessage(quiet.session.id, last)]);
  streams.splice(SLOW_CLIENTS);
  const all = Array.from({ length: MESSAGES }, (_, index) => index + 1);
  const [broken, kept] = [streams.filter(({ isBroken }) => isBroken), streams.filter(({ isBroken }) => !isBroken)];
  const inSockets = Math.max(...broken.map(({ text }) => text.length));
  t.diagnostic(`${broken.length} of ${SLOW_CLIENTS} streams broke; their sockets held up to ${(inSockets / MIB).toFixed(1)} MiB`);
  assert.ok(kept.length * (MESSAGES * MIB - inSockets) <= BUDGET, `${kept.length} streams were kept`);
  for (const { text } of kept) assert.deepEqual(numbersIn(text), all);
  for (const { text } of broken) assert.deepEqual(numbersIn(text), all.slice(0, numbersIn(text).length));
  const { text, isBroken } = await small.readAll('"n":"last"');
  assert.deepEqual([isBroken, numbersIn(text)], [false, all], 'a small stream is not disconnected');

  // A client that was disconnected resumes after its last event.
  const lastEventId = /.*\nid: ([^\n]+)\n/s.exec(broken[0].text.slice(0, broken[0].text.lastIndexOf('\n\n')))[1];
  const resumed = await resumeFeed(t, web, 'stream', { sessionId: session.id }, lastEventId);
  assert.match((await resumed.waitForGreeting()).data.resume, /^(ok|gap)$/);
});
