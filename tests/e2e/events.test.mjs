/** Events for web clients, over the event stream (SSE) and the event socket: filters, order, resumption and heartbeats. */

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, describe, test } from 'node:test';
import { eventually } from '../../scripts/lib/await.mjs';
import { CHANNELS, resumeFeed, openFeed } from './lib/channels.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { CLOCK_WORKER, startHub } from './lib/hub.mjs';

const JWT_SECRET = 'a secret of these tests that is long enough';
const hub = await startHub({ vars: { JWT_SECRET }, wrappers: CLOCK_WORKER });
after(() => hub.stop());

/** Creates a web client's token that expires an hour after `time`, in Unix milliseconds. */
function createJwt(ns, time) {
  const encode = (part) => Buffer.from(JSON.stringify(part)).toString('base64url');
  const iat = Math.floor(time / 1000);
  const signed = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode({ uid: 1, ns, iat, exp: iat + 3600 })}`;
  return `${signed}.${createHmac('sha256', JWT_SECRET).update(signed).digest('base64url')}`;
}

for (const channel of Object.keys(CHANNELS)) {
  describe(`the ${channel}`, () => {
    test('starts with connection-changed, and accepts a token in the header or in the query', async (t) => {
      const { body } = await hub.web('begin').post('/api/auth', { accessToken: hub.token('begin') });
      for (const token of [hub.token('begin'), body.token]) {
        for (const tokenInQuery of [true, false]) {
          const feed = await openFeed(t, hub.web('begin', token), channel, { all: 'true' }, { tokenInQuery });
          const [first] = feed.all;
          assert.equal(first.type, 'connection-changed');
          assert.deepEqual([first.data.status, first.data.resume], ['connected', 'ok']);
          assert.match(first.data.subscriptionId, /^[0-9a-f-]{36}$/);
          assert.equal(typeof first.eventId, 'string');
          if (channel === 'stream') {
            assert.match(feed.headers['content-type'], /^text\/event-stream/);
            assert.match(feed.headers['cache-control'], /no-store/);
            assert.equal(feed.headers['x-content-type-options'], 'nosniff');
          }
        }
      }
    });
  });
}

test('the socket answers the text `probe` with the event `probe`, which has no id', async (t) => {
  const feed = await openFeed(t, hub.web('probe'), 'socket', { all: 'true' });
  for (const _ of [1, 2]) {
    feed.send('probe');
    assert.deepEqual(await feed.nextEvent('probe'), { type: 'probe' });
  }
});

describe('a socket that answers no heartbeats', () => {
  test('is closed when 16 MiB of events may be unread, and its client can resume', async (t) => {
    const { session } = await liveSession(t, hub, { namespace: 'unread', tag: 'unread' });
    const web = hub.web('unread');
    const query = { sessionId: session.id };
    const feed = await openFeed(t, web, 'socket', query);
    // If a client never sent anything, the local runtime closes its connection ten seconds late.
    feed.send('hello');
    const messages = `/api/sessions/${session.id}/messages`;
    const text = 'x'.repeat(1024 * 1024);
    for (let sent = 1; sent <= 16; sent += 1) assert.equal((await web.post(messages, { text })).status, 200);
    assert.match(await feed.waitForEnd('the socket to be closed'), /closed with 4408 Too much is unread/);
    const back = await resumeFeed(t, web, 'socket', query, feed.all.at(-1).eventId);
    assert.equal((await back.waitForGreeting()).data.resume, 'ok');
    assert.equal((await back.nextEvent('message-received')).message.seq, 16);
  });
});

describe('a client that disconnects', () => {
  for (const channel of Object.keys(CHANNELS)) {
    test(`is no longer a subscriber of the ${channel} when events follow`, async (t) => {
      const namespace = `gone-${channel}`;
      const { session } = await liveSession(t, hub, { namespace, tag: 'gone' });
      const web = hub.web(namespace);
      const feed = await openFeed(t, web, channel, { sessionId: session.id });
      const { subscriptionId } = (await feed.waitForGreeting()).data;
      feed.close();
      await eventually(async () => {
        await web.post(`/api/sessions/${session.id}/messages`, { text: 'Still there?' });
        return (await web.post('/api/visibility', { subscriptionId, visibility: 'visible' })).status === 404;
      }, 'the subscription to end');
    });
  }
});

describe('a token that expires', () => {
  for (const channel of Object.keys(CHANNELS)) {
    test(`closes the ${channel} that was opened with it, which can be resumed with a new token`, async (t) => {
      const namespace = `expiry-${channel}`;
      const token = createJwt(namespace, await hub.advance(namespace, 0));
      const feed = await openFeed(t, hub.web(namespace, token), channel, { all: 'true' }, { tokenInQuery: true });
      if (channel === 'socket') feed.send('hello');
      await hub.advance(namespace, 3_600_000);
      const end = await feed.waitForEnd(`the ${channel} to end`);
      assert.match(end, channel === 'socket' ? /closed with 4401 Token expired/ : /the stream ended/);
      const back = await resumeFeed(t, hub.web(namespace), channel, { all: 'true' }, feed.all.at(-1).eventId);
      assert.equal((await back.waitForGreeting()).data.resume, 'ok');
    });
  }
});

describe('a heartbeat', () => {
  for (const channel of Object.keys(CHANNELS)) {
    test(`is sent on the ${channel} every 30 s, with an id from which a client can resume`, async (t) => {
      const namespace = `heart-${channel}`;
      const web = hub.web(namespace);
      const feed = await openFeed(t, web, channel, { all: 'true' });
      await hub.advance(namespace, 30_000);
      const { eventId } = await feed.next(({ type }) => type === 'heartbeat', 'a heartbeat');
      const back = await resumeFeed(t, web, channel, { all: 'true' }, eventId);
      assert.equal((await back.waitForGreeting()).data.resume, 'ok');
    });
  }
});
