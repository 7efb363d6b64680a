/** Event streams whose clients do not read. All these streams together hold a limited part of the worker's memory. */

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, test } from 'node:test';
import { deferred, withTimeout } from '../../scripts/lib/await.mjs';
import { openFeed, resumeFeed } from './lib/channels.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

const MIB = 1024 * 1024;

/** The unread bytes of all streams of an isolate (`MAX_STREAM_BYTES`). */
const MAX_STREAM_BYTES = 16 * MIB;

const MESSAGES = 12;
const SLOW_CLIENTS = 6;

const hub = await startHub({ after });

/**
 * Opens a stream whose client reads nothing until `readAll`.
 * @returns {Promise<{readAll: (last: string) => Promise<{text: string, isBroken: boolean}>}>} `readAll` reads what has arrived until `last`, or
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

test('clients that do not read are disconnected, the largest stream first, and the other clients miss nothing', async (t) => {
  const startLiveSession = (namespace, tag) => liveSession(t, hub, { namespace, tag, tokenIn: 'header' });
  const loud = await Promise.all(Array.from({ length: SLOW_CLIENTS }, (_, index) => startLiveSession('loud', `loud ${index}`)));
  const quiet = await startLiveSession('quiet', 'quiet');
  const web = hub.web('loud');
  const reader = await openFeed(t, web, 'stream', { sessionId: loud[0].session.id });
  const small = await openSlowStream(t, hub.web('quiet'), quiet.session.id);
  const slow = await Promise.all(loud.map(({ session }) => openSlowStream(t, web, session.id)));
  const before = hub.readMemory().now;
  for (let n = 1; n <= MESSAGES; n += 1) {
    await quiet.cli.sendMessage(quiet.session.id, { n, padding: '' });
    for (const { session, cli } of loud) await cli.sendMessage(session.id, { n, padding: 'x'.repeat(MIB) });
    await reader.next(({ message }) => message?.content.n === n, `message ${n}`);
  }
  const growth = hub.readMemory().peak - before;
  t.diagnostic(`the process has grown by at most ${(growth / MIB).toFixed(0)} MiB`);

  const sendLast = ({ session, cli }) => cli.sendMessage(session.id, { n: 'last', padding: '' });
  const reading = [small, ...slow].map(({ readAll }) => readAll('"n":"last"'));
  await Promise.all([quiet, ...loud].map(sendLast));
  const [smallStream, ...streams] = await Promise.all(reading);
  const all = Array.from({ length: MESSAGES }, (_, index) => index + 1);
  const [broken, kept] = [streams.filter(({ isBroken }) => isBroken), streams.filter(({ isBroken }) => !isBroken)];
  const inSockets = Math.max(...broken.map(({ text }) => text.length));
  t.diagnostic(`${broken.length} of ${SLOW_CLIENTS} streams broke; their sockets held up to ${(inSockets / MIB).toFixed(1)} MiB`);
  assert.ok(kept.length * (MESSAGES * MIB - inSockets) <= MAX_STREAM_BYTES, `${kept.length} streams were kept`);
  for (const { text } of kept) assert.deepEqual(numbersIn(text), all);
  for (const { text } of broken) assert.deepEqual(numbersIn(text), all.slice(0, numbersIn(text).length));
  assert.deepEqual([smallStream.isBroken, numbersIn(smallStream.text)], [false, all], 'a small stream is not disconnected');

  // A client that was disconnected resumes after its last event.
  const index = streams.indexOf(broken[0]);
  const events = broken[0].text.slice(0, broken[0].text.lastIndexOf('\n\n'));
  const lastEventId = events.slice(events.lastIndexOf('\nid: ') + 5).split('\n')[0];
  const resumed = await resumeFeed(t, web, 'stream', { sessionId: loud[index].session.id }, lastEventId);
  assert.match((await resumed.waitForGreeting()).data.resume, /^(ok|gap)$/);
});

test('a large event reaches all clients that read, even if there are many', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'many', tag: 'many', tokenIn: 'header' });
  const feeds = await Promise.all(Array.from({ length: 40 }, () => openFeed(t, hub.web('many'), 'stream', { sessionId: session.id })));
  for (let n = 1; n <= 3; n += 1) await cli.sendMessage(session.id, { n, padding: 'x'.repeat(MIB) });
  for (const feed of feeds) {
    await feed.next(({ message }) => message?.content.n === 3, 'the last message');
    assert.deepEqual(
      feed.all.flatMap(({ message }) => message?.content.n ?? []),
      [1, 2, 3],
    );
  }
});
