/** Events for web clients, over the event stream (SSE) and the event socket: greetings, probes and unread events. tests/it/events.rs has more. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { eventually } from '../../scripts/lib/await.mjs';
import { CHANNELS, resumeFeed, openFeed } from './lib/channels.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub({ after });

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
