/** Web clients that come back: what they missed is replayed, also when the hub slept or ended meanwhile. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CHANNELS, resumeFeed, openFeed } from './lib/channels.mjs';
import { liveSession } from './lib/cli.mjs';
import { startHub } from './lib/hub.mjs';

/** The messages and renames that a feed brought; heartbeats and what changes by itself may come in between. */
const told = (feed) => feed.all.filter(({ message, data }) => message !== undefined || data?.metadata !== undefined);

/** The numbers of the messages and the names, once the message with this number has come. */
async function upTo(feed, n) {
  await feed.next(({ message }) => message?.content.n === n, `message ${n}`);
  return told(feed).map(({ message, data }) => message?.content.n ?? data.metadata.name);
}

function assertInOrder(feeds) {
  const numbers = feeds.flatMap(told).map(({ eventId }) => Number(eventId.split('-')[1]));
  assert.deepEqual(numbers, [...new Set(numbers)].sort((a, b) => a - b), 'no event twice, none out of order');
}

/** A hub with a session and its CLI, and how a web client hears all of it. */
async function scene(t, channel) {
  const hub = await startHub();
  t.after(() => hub.stop());
  const namespace = `back-${channel}`;
  const { session, cli } = await liveSession(t, hub, { namespace, tag: 'back', way: 'header', reconnection: true });
  return { hub, namespace, web: hub.web(namespace), session, cli, query: { all: 'true', sessionId: session.id } };
}

describe('what a web client missed', { concurrency: true }, () => {
  for (const channel of Object.keys(CHANNELS)) {
    test(`is replayed on the ${channel} over a restart of the hub`, async (t) => {
      const { hub, web, session, cli, query } = await scene(t, channel);
      const left = await openFeed(t, web, channel, query);
      await cli.sendMessage(session.id, { n: 1 });
      assert.deepEqual(await upTo(left, 1), [1]);
      left.close();
      const cutOff = await openFeed(t, web, channel, query);
      await cli.sendMessage(session.id, { n: 2 });
      assert.equal((await web.patch(`/api/sessions/${session.id}`, { name: 'Renamed' })).status, 200);
      await cutOff.nextUpdate({ metadataVersion: 2 });

      await cli.waitForReconnect(() => hub.restart());
      await cutOff.waitForEnd('the channel to break with the hub');
      await cli.sendMessage(session.id, { n: 3 });
      await cli.waitForReconnect(() => hub.restart());

      const back = await resumeFeed(t, web, channel, query, left.all.at(-1).eventId);
      assert.equal((await back.waitForGreeting()).data.resume, 'ok');
      const again = await resumeFeed(t, web, channel, query, cutOff.all.at(-1).eventId);
      assert.equal((await again.waitForGreeting()).data.resume, 'ok');
      await cli.sendMessage(session.id, { n: 4 });
      assert.deepEqual(await upTo(back, 4), [2, 'Renamed', 3, 4]);
      assert.deepEqual(await upTo(again, 4), [3, 4]);
      assertInOrder([left, back]);
      assertInOrder([cutOff, again]);

      const elsewhere = await resumeFeed(t, hub.web('elsewhere'), channel, { all: 'true' }, left.all.at(-1).eventId);
      assert.equal((await elsewhere.waitForGreeting()).data.resume, 'gap', 'an id is worth nothing in another namespace');
    });

    test(`is replayed on the ${channel} over the sleep of its object`, async (t) => {
      const { hub, namespace, web, session, cli, query } = await scene(t, channel);
      const left = await openFeed(t, web, channel, query);
      const stays = await openFeed(t, web, channel, query);
      await cli.sendMessage(session.id, { n: 1 });
      for (const feed of [left, stays]) assert.deepEqual(await upTo(feed, 1), [1]);
      left.close();
      for (const n of [2, 3]) {
        assert.equal(await hub.sleep(namespace), true, 'it was awake');
        await cli.sendMessage(session.id, { n });
      }
      assert.equal(await hub.sleep(namespace), true);
      const back = await resumeFeed(t, web, channel, query, left.all.at(-1).eventId);
      assert.equal((await back.waitForGreeting()).data.resume, 'ok');
      await cli.sendMessage(session.id, { n: 4 });
      assert.deepEqual(await upTo(back, 4), [2, 3, 4]);
      assert.deepEqual(await upTo(stays, 4), [1, 2, 3, 4]);
      assertInOrder([left, back]);
      assertInOrder([stays]);
    });
  }
});
