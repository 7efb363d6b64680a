/** Events for web clients, over the event stream (SSE) and the event socket: filters, order, resumption and heartbeats. */

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, describe, test } from 'node:test';
import { eventually } from '../../scripts/lib/await.mjs';
import { CHANNELS, resumeFeed, openFeed } from './lib/channels.mjs';
import { connectCli, liveSession } from '../../scripts/lib/clients/cli.mjs';
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

/** Returns the types of the received events, without the heartbeats, which arrive at any time. */
const typesOf = (feed) => feed.all.map(({ type }) => type).filter((type) => type !== 'heartbeat');

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

    test('carries a user’s message and the agent’s answer', async (t) => {
      const { session, cli } = await liveSession(t, hub, { namespace: channel, tag: 'conversation' });
      const web = hub.web(channel);
      const feed = await openFeed(t, web, channel, { sessionId: session.id });
      const { body } = await web.post(`/api/sessions/${session.id}/messages`, { text: 'How are you?', localId: 'q' });

      const update = await cli.nextUpdate('new-message');
      assert.deepEqual([update.sid, update.message.content.content.text], [session.id, 'How are you?']);
      const ack = await cli.sendMessage(session.id, { role: 'agent', content: 'Fine.' }, 'a');

      const question = await feed.nextEvent('message-received');
      assert.deepEqual(question.message, {
        id: body.message.id,
        seq: 1,
        localId: 'q',
        createdAt: body.message.createdAt,
        content: { role: 'user', content: { type: 'text', text: 'How are you?' }, meta: { sentFrom: 'web' } },
      });
      const answer = await feed.nextEvent('message-received');
      assert.deepEqual(
        [answer.sessionId, answer.message.id, answer.message.seq, answer.message.localId, answer.message.content],
        [session.id, ack.id, 2, 'a', { role: 'agent', content: 'Fine.' }],
      );
    });

    test('carries the creation, changes and deletion of a session', async (t) => {
      const web = hub.web(`life ${channel}`.replace(' ', '-'));
      const feed = await openFeed(t, web, channel, { all: 'true' });
      const session = await web.openSession({ tag: 'life' });
      const added = await feed.nextEvent('session-added', session.id);
      assert.equal(added.data.id, session.id);
      await web.patch(`/api/sessions/${session.id}`, { name: 'Named' });
      const { data } = await feed.nextUpdate({ metadataVersion: 2 });
      assert.equal(data.metadata.name, 'Named');
      await web.delete(`/api/sessions/${session.id}`);
      await feed.nextEvent('session-removed', session.id);
      assert.deepEqual(typesOf(feed), ['connection-changed', 'session-added', 'session-updated', 'session-removed']);
    });

    test('carries changes of a machine', async (t) => {
      const namespace = `machine-${channel}`;
      const web = hub.web(namespace);
      const feed = await openFeed(t, web, channel, { machineId: (await web.registerMachine({ id: `m-${channel}` })).id });
      const cli = await connectCli(t, hub, { namespace, auth: { machineId: `m-${channel}` } });
      await cli.emitWithAck('machine-alive', { machineId: `m-${channel}`, time: Date.now() });
      const { machineId, data } = await feed.nextEvent('machine-updated');
      assert.deepEqual([machineId, data.active], [`m-${channel}`, true]);
      const update = { machineId, expectedVersion: 1, runnerState: { status: 'busy' } };
      assert.equal((await cli.emitWithAck('machine-update-state', update)).result, 'success');
      const changed = (await feed.nextEvent('machine-updated')).data;
      assert.deepEqual([changed.runnerState, changed.runnerStateVersion], [{ status: 'busy' }, 2]);
    });

    test('carries only the events that match its query', async (t) => {
      const namespace = `filters-${channel}`;
      const web = hub.web(namespace);
      const one = await liveSession(t, hub, { namespace, tag: 'one' });
      const two = await liveSession(t, hub, { namespace, tag: 'two' });
      await web.registerMachine({ id: namespace });
      const feeds = {
        all: await openFeed(t, web, channel, { all: 'true' }),
        one: await openFeed(t, web, channel, { sessionId: one.session.id }),
        two: await openFeed(t, web, channel, { sessionId: two.session.id }),
        machine: await openFeed(t, web, channel, { machineId: namespace }),
        allAndOne: await openFeed(t, web, channel, { all: 'true', sessionId: one.session.id }),
      };
      await one.cli.sendMessage(one.session.id, { n: 1 });
      await two.cli.sendMessage(two.session.id, { n: 2 });
      await web.patch(`/api/sessions/${one.session.id}`, { name: 'One' });
      await web.registerMachine({ id: namespace, metadata: { displayName: 'M' } });
      await web.patch(`/api/sessions/${two.session.id}`, { name: 'Two' });
      // Events arrive in order. So an event that has not arrived before the last event was not sent.
      const last = { all: two.session.id, one: null, two: two.session.id, machine: null, allAndOne: two.session.id };
      for (const [name, sessionId] of Object.entries(last)) {
        if (sessionId) await feeds[name].nextEvent('session-updated', sessionId);
      }
      await feeds.one.nextEvent('session-updated', one.session.id);
      await feeds.machine.nextEvent('machine-updated');

      const withoutHeartbeats = (feed) => feed.all.slice(1).filter(({ type }) => type !== 'heartbeat');
      const eventsOf = (feed) => withoutHeartbeats(feed).map(({ type, sessionId, machineId }) => [type, sessionId ?? machineId]);
      const [message1, message2] = [one, two].map(({ session }) => ['message-received', session.id]);
      const [update1, update2] = [one, two].map(({ session }) => ['session-updated', session.id]);
      const machine = ['machine-updated', namespace];
      assert.deepEqual(eventsOf(feeds.all), [update1, machine, update2], 'all events except messages');
      assert.deepEqual(eventsOf(feeds.one), [message1, update1]);
      assert.deepEqual(eventsOf(feeds.two), [message2, update2]);
      assert.deepEqual(eventsOf(feeds.machine), [machine]);
      assert.deepEqual(eventsOf(feeds.allAndOne), [message1, update1, machine, update2]);
    });

    test('replays missed events in order before new ones', async (t) => {
      const { session, cli } = await liveSession(t, hub, { namespace: `back-${channel}`, tag: 'back' });
      const web = hub.web(`back-${channel}`);
      const query = { sessionId: session.id };
      const feed = await openFeed(t, web, channel, query);
      await cli.sendMessage(session.id, { n: 1 });
      const lastSeen = await feed.nextEvent('message-received');
      feed.close();
      for (let n = 2; n <= 4; n += 1) await cli.sendMessage(session.id, { n });

      const resumedFeed = await resumeFeed(t, web, channel, query, lastSeen.eventId);
      assert.equal((await resumedFeed.waitForGreeting()).data.resume, 'ok');
      await cli.sendMessage(session.id, { n: 5 });
      await resumedFeed.next(({ message }) => message?.seq === 5, 'the message sent after the reconnection');
      const numbers = resumedFeed.all.filter(({ type }) => type === 'message-received').map(({ message }) => message.content.n);
      assert.deepEqual(numbers, [2, 3, 4, 5]);
      const ids = [...feed.all, ...resumedFeed.all.slice(1)].map(({ eventId }) => eventId);
      assert.ok(
        ids.every((id) => typeof id === 'string' && id !== ''),
        'every event has an id',
      );
      assert.equal(new Set(ids).size, ids.length, 'the ids are unique');

      // A client that disconnects right after the greeting resumes from there.
      const [greeting] = resumedFeed.all;
      const secondResumedFeed = await resumeFeed(t, web, channel, query, greeting.eventId);
      assert.equal((await secondResumedFeed.next(({ type }) => type === 'message-received', 'the first missed message')).message.seq, 2);
    });

    test('reports a gap for an unknown event id', async (t) => {
      const web = hub.web(`gap-${channel}`);
      const feed = await openFeed(t, web, channel, { all: 'true' });
      await web.openSession({ tag: 'gap' });
      const { eventId } = await feed.nextEvent('session-added');
      for (const unknownId of ['nonsense', '0', `${eventId}0`]) {
        const resumedFeed = await resumeFeed(t, web, channel, { all: 'true' }, unknownId);
        assert.equal((await resumedFeed.waitForGreeting()).data.resume, 'gap', unknownId);
      }
      const otherFeed = await resumeFeed(t, hub.web(`elsewhere-${channel}`), channel, { all: 'true' }, eventId);
      assert.equal((await otherFeed.waitForGreeting()).data.resume, 'gap', 'an id of another namespace is unknown');
      const newFeed = await openFeed(t, web, channel, { all: 'true' });
      assert.equal((await newFeed.waitForGreeting()).data.resume, 'ok', 'a new client has missed nothing');
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

describe('agent state', () => {
  test('with a permission request is sent to web clients', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'state', tag: 'state' });
    const web = hub.web('state');
    const feeds = [await openFeed(t, web, 'stream', { all: 'true' }), await openFeed(t, web, 'socket', { sessionId: session.id })];
    const agentState = { controlledByUser: false, requests: { r1: { tool: 'shell', arguments: { command: 'ls' }, createdAt: 1 } } };
    await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState });
    for (const feed of feeds) assert.deepEqual((await feed.nextUpdate({ agentStateVersion: 2 })).data.agentState, agentState);
  });
});

describe('visibility', () => {
  test('is set for a subscription; an unknown subscription, or one of another namespace, is a 404', async (t) => {
    const web = hub.web('visible');
    for (const channel of Object.keys(CHANNELS)) {
      const feed = await openFeed(t, web, channel, { all: 'true', visibility: 'hidden' });
      const { subscriptionId } = (await feed.waitForGreeting()).data;
      const setVisibility = (body, asker = web) => asker.post('/api/visibility', body);
      assert.deepEqual((await setVisibility({ subscriptionId, visibility: 'visible' })).body, { ok: true });
      assert.deepEqual((await setVisibility({ subscriptionId, visibility: 'hidden' })).body, { ok: true });
      assert.equal((await setVisibility({ subscriptionId, visibility: 'half' })).status, 400);
      assert.equal((await setVisibility({ subscriptionId })).status, 400);
      for (const refused of [
        await setVisibility({ subscriptionId: 'unknown', visibility: 'visible' }),
        await setVisibility({ subscriptionId, visibility: 'visible' }, hub.web('others')),
      ]) {
        assert.deepEqual([refused.status, refused.body.code], [404, 'subscription_not_found']);
      }
    }
    assert.equal((await web.get('/api/events?visibility=perhaps')).status, 400);
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
