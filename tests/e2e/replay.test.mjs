/** A web client that reconnects gets the missed events, even if the hub restarted or its object hibernated meanwhile. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CHANNELS, resumeFeed, openFeed } from './lib/channels.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

/** Returns the messages and renames of a feed, without heartbeats and changes of the presence. */
const changesOf = (feed) => feed.all.filter(({ message, data }) => message !== undefined || data?.metadata !== undefined);

/** Waits for the message with number `n` and returns all message numbers and session names so far. */
async function readUntil(feed, n) {
  await feed.next(({ message }) => message?.content.n === n, `message ${n}`);
  return changesOf(feed).map(({ message, data }) => message?.content.n ?? data.metadata.name);
}

function assertInOrder(feeds) {
  const numbers = feeds.flatMap(changesOf).map(({ eventId }) => Number(eventId.split('-')[1]));
  assert.deepEqual(
    numbers,
    [...new Set(numbers)].sort((a, b) => a - b),
    'each event once, in order',
  );
}

/** Starts a hub with a session and its CLI. Also returns the query for a feed of all events. */
async function setUp(t, channel) {
  const hub = await startHub(t);
  const namespace = `replay-${channel}`;
  const { session, cli } = await liveSession(t, hub, { namespace, tag: 'replay', tokenIn: 'header', reconnection: true });
  return { hub, namespace, web: hub.web(namespace), session, cli, query: { all: 'true', sessionId: session.id } };
}

describe('events that a web client missed', { concurrency: true }, () => {
  for (const channel of Object.keys(CHANNELS)) {
    test(`are replayed on the ${channel} after a restart of the hub`, async (t) => {
      const { hub, web, session, cli, query } = await setUp(t, channel);
      const closedFeed = await openFeed(t, web, channel, query);
      await cli.sendMessage(session.id, { n: 1 });
      assert.deepEqual(await readUntil(closedFeed, 1), [1]);
      closedFeed.close();
      const interruptedFeed = await openFeed(t, web, channel, query);
      await cli.sendMessage(session.id, { n: 2 });
      assert.equal((await web.patch(`/api/sessions/${session.id}`, { name: 'Renamed' })).status, 200);
      await interruptedFeed.nextUpdate({ metadataVersion: 2 });

      await cli.waitForReconnect(() => hub.restart());
      await interruptedFeed.waitForEnd('the channel to close');
      await cli.sendMessage(session.id, { n: 3 });
      await cli.waitForReconnect(() => hub.restart());

      const resumedClosedFeed = await resumeFeed(t, web, channel, query, closedFeed.all.at(-1).eventId);
      assert.equal((await resumedClosedFeed.waitForGreeting()).data.resume, 'ok');
      const resumedInterruptedFeed = await resumeFeed(t, web, channel, query, interruptedFeed.all.at(-1).eventId);
      assert.equal((await resumedInterruptedFeed.waitForGreeting()).data.resume, 'ok');
      await cli.sendMessage(session.id, { n: 4 });
      assert.deepEqual(await readUntil(resumedClosedFeed, 4), [2, 'Renamed', 3, 4]);
      assert.deepEqual(await readUntil(resumedInterruptedFeed, 4), [3, 4]);
      assertInOrder([closedFeed, resumedClosedFeed]);
      assertInOrder([interruptedFeed, resumedInterruptedFeed]);

      const otherFeed = await resumeFeed(t, hub.web('elsewhere'), channel, { all: 'true' }, closedFeed.all.at(-1).eventId);
      assert.equal((await otherFeed.waitForGreeting()).data.resume, 'gap', 'an event id of another namespace is unknown');
    });
  }
});
