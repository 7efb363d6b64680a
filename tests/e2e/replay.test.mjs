/** A web client that reconnects gets the events it missed, also if the hub restarted or its object hibernated meanwhile. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CHANNELS, resumeFeed, openFeed } from './lib/channels.mjs';
import { liveSession } from './lib/cli.mjs';
import { startHub } from './lib/hub.mjs';

/** The messages and renames of a feed, without heartbeats and changes of the presence. */
const changes = (feed) => feed.all.filter(({ message, data }) => message !== undefined || data?.metadata !== undefined);

/** Waits for the message with number `n` and returns all message numbers and session names so far. */
async function readUntil(feed, n) {
  await feed.next(({ message }) => message?.content.n === n, `message ${n}`);
  return changes(feed).map(({ message, data }) => message?.content.n ?? data.metadata.name);
}

function assertInOrder(feeds) {
  const numbers = feeds.flatMap(changes).map(({ eventId }) => Number(eventId.split('-')[1]));
  assert.deepEqual(numbers, [...new Set(numbers)].sort((a, b) => a - b), 'each event once, in order');
}

/** A hub with a session and its CLI, and the query for a feed of all its events. */
async function setUp(t, channel) {
  const hub = await startHub();
  t.after(() => hub.stop());
  const namespace = `replay-${channel}`;
  const { session, cli } = await liveSession(t, hub, { namespace, tag: 'replay', tokenIn: 'header', reconnection: true });
  return { hub, namespace, web: hub.web(namespace), session, cli, query: { all: 'true', sessionId: session.id } };
}

describe('events that a web client missed', { concurrency: true }, () => {
  for (const channel of Object.keys(CHANNELS)) {
    test(`are replayed on the ${channel} after a restart of the hub`, async (t) => {
      const { hub, web, session, cli, query } = await setUp(t, channel);
      const closed = await openFeed(t, web, channel, query);
      await cli.sendMessage(session.id, { n: 1 });
      assert.deepEqual(await readUntil(closed, 1), [1]);
      closed.close();
      const interrupted = await openFeed(t, web, channel, query);
      await cli.sendMessage(session.id, { n: 2 });
      assert.equal((await web.patch(`/api/sessions/${session.id}`, { name: 'Renamed' })).status, 200);
      await interrupted.nextUpdate({ metadataVersion: 2 });

      await cli.waitForReconnect(() => hub.restart());
      await interrupted.waitForEnd('the channel to close');
      await cli.sendMessage(session.id, { n: 3 });
      await cli.waitForReconnect(() => hub.restart());

      const fromClosed = await resumeFeed(t, web, channel, query, closed.all.at(-1).eventId);
      assert.equal((await fromClosed.waitForGreeting()).data.resume, 'ok');
      const fromInterrupted = await resumeFeed(t, web, channel, query, interrupted.all.at(-1).eventId);
      assert.equal((await fromInterrupted.waitForGreeting()).data.resume, 'ok');
      await cli.sendMessage(session.id, { n: 4 });
      assert.deepEqual(await readUntil(fromClosed, 4), [2, 'Renamed', 3, 4]);
      assert.deepEqual(await readUntil(fromInterrupted, 4), [3, 4]);
      assertInOrder([closed, fromClosed]);
      assertInOrder([interrupted, fromInterrupted]);

      const elsewhere = await resumeFeed(t, hub.web('elsewhere'), channel, { all: 'true' }, closed.all.at(-1).eventId);
      assert.equal((await elsewhere.waitForGreeting()).data.resume, 'gap', 'an event id of another namespace is unknown');
    });

    test(`are replayed on the ${channel} after its object hibernated`, async (t) => {
      const { hub, namespace, web, session, cli, query } = await setUp(t, channel);
      const closed = await openFeed(t, web, channel, query);
      const open = await openFeed(t, web, channel, query);
      await cli.sendMessage(session.id, { n: 1 });
      for (const feed of [closed, open]) assert.deepEqual(await readUntil(feed, 1), [1]);
      closed.close();
      for (const n of [2, 3]) {
        assert.equal(await hub.sleep(namespace), true, 'the object was active');
        await cli.sendMessage(session.id, { n });
      }
      assert.equal(await hub.sleep(namespace), true);
      const resumed = await resumeFeed(t, web, channel, query, closed.all.at(-1).eventId);
      assert.equal((await resumed.waitForGreeting()).data.resume, 'ok');
      await cli.sendMessage(session.id, { n: 4 });
      assert.deepEqual(await readUntil(resumed, 4), [2, 3, 4]);
      assert.deepEqual(await readUntil(open, 4), [1, 2, 3, 4]);
      assertInOrder([closed, resumed]);
      assertInOrder([open]);
    });
  }
});
