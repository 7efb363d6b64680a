/** Concurrent operations of several clients on one session. tests/it/concurrency.rs tries every order. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { deferred } from '../../scripts/lib/await.mjs';
import { connectCli, liveSession } from '../../scripts/lib/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub();
after(() => hub.stop());

/** Returns the numbers from 0 to `count - 1`. */
const indexesUpTo = (count) => Array.from({ length: count }, (_, n) => n);
/** Returns the numbers from 1 to `count`. */
const numbersUpTo = (count) => Array.from({ length: count }, (_, n) => n + 1);
const isOk = ({ status }) => status === 200;

/** Opens two feeds of a session's events, one over each transport. */
async function openFeeds(t, web, sessionId) {
  const feeds = [await web.openStream({ sessionId }), await web.openSocket({ sessionId })];
  t.after(() => feeds.forEach((feed) => feed.close()));
  return feeds;
}

/** Waits until each feed has every version of a value since the feed was opened, once and in order. Returns the session. */
async function waitForLastVersion(web, sessionId, feeds, version) {
  const { session } = (await web.get(`/api/sessions/${sessionId}`)).body;
  for (const feed of feeds) {
    await feed.first((event) => event.data?.[version] === session[version], `${version} ${session[version]}`);
    const versions = feed.all.map((event) => event.data?.[version]).filter((value) => value !== undefined);
    assert.deepEqual(versions, numbersUpTo(session[version]).slice(-versions.length));
  }
  return session;
}

describe('ten concurrent requests', { concurrency: true }, () => {
  test('for one tag create one session', async (t) => {
    const web = hub.web('tag');
    const feed = await web.openSocket({ all: 'true' });
    t.after(() => feed.close());
    const sessions = await Promise.all(indexesUpTo(10).map(() => web.openSession({ tag: 'wanted' })));
    assert.equal(new Set(sessions.map(({ id }) => id)).size, 1);
    assert.equal((await web.get('/api/sessions')).body.sessions.length, 1);
    await web.patch(`/api/sessions/${sessions[0].id}`, { name: 'the end' });
    await feed.nextEvent('session-updated');
    assert.equal(feed.all.filter(({ type }) => type === 'session-added').length, 1);
  });

  test('that answer one permission request: one succeeds, and the CLI gets only this answer', async (t) => {
    const { session, cli } = await liveSession(t, hub, {
      namespace: 'answers',
      tag: 'answered',
      agentState: { requests: { r1: { tool: 'shell', arguments: {} } } },
    });
    const web = hub.web('answers');
    const feeds = await openFeeds(t, web, session.id);
    const received = [];
    await cli.serve('permission', (answer) => {
      received.push(answer.approved);
      return {};
    });
    const verbs = indexesUpTo(10).map((n) => (n % 2 === 0 ? 'approve' : 'deny'));
    const path = `/api/sessions/${session.id}/permissions/r1`;
    const answers = await Promise.all(verbs.map((verb) => web.post(`${path}/${verb}`, {})));
    const winner = verbs[answers.findIndex(isOk)];
    assert.deepEqual(received, [winner === 'approve']);
    for (const { status, body } of answers.filter((answer) => !isOk(answer))) {
      assert.deepEqual([status, body.code], [404, 'request_not_found']);
    }
    assert.equal(answers.filter(isOk).length, 1);
    const { agentState } = await waitForLastVersion(web, session.id, feeds, 'agentStateVersion');
    assert.equal(agentState.completedRequests.r1.status, winner === 'approve' ? 'approved' : 'denied');
  });

  test('to resume a session succeed with one call to its machine', async (t) => {
    const web = hub.web('resumed');
    await web.registerMachine({ id: 'runner' });
    const metadata = { flavor: 'beta', betaSessionId: 'agent-7', machineId: 'runner' };
    const session = await web.openSession({ tag: 'over', metadata });
    const runner = await connectCli(t, hub, { namespace: 'resumed', auth: { machineId: 'runner' } });
    await runner.emitWithAck('machine-alive', { machineId: 'runner', time: Date.now() });
    let spawned = 0;
    await runner.serve('spawnSession', async ({ sessionId }) => {
      spawned += 1;
      const cli = await connectCli(t, hub, { namespace: 'resumed', auth: { sessionId } });
      await cli.keepAlive(sessionId);
      return { success: true, sessionId };
    });
    const answers = await Promise.all(indexesUpTo(10).map(() => web.post(`/api/sessions/${session.id}/resume`)));
    for (const { text, body } of answers) assert.deepEqual(body, { success: true, sessionId: session.id }, text);
    assert.equal(spawned, 1);
  });
});

describe('concurrently on one session', { concurrency: true }, () => {
  test('renames and updates of the metadata do not overwrite each other', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'names', tag: 'named' });
    const web = hub.web('names');
    const feeds = await openFeeds(t, web, session.id);
    const rename = (n) => web.patch(`/api/sessions/${session.id}`, { name: `name ${n}` });
    /** On a version mismatch, a CLI retries with the current value. */
    const incrementCount = async () => {
      for (let [version, metadata] = [1, session.metadata]; ; ) {
        const changed = { ...metadata, count: (metadata.count ?? 0) + 1 };
        const ack = await cli.emitWithAck('update-metadata', { sid: session.id, expectedVersion: version, metadata: changed });
        if (ack.result === 'success') return;
        assert.equal(ack.result, 'version-mismatch');
        ({ version, metadata } = ack);
      }
    };
    const [renames] = await Promise.all([Promise.all(indexesUpTo(10).map(rename)), Promise.all(indexesUpTo(10).map(incrementCount))]);
    assert.ok(renames.every(isOk));
    const { metadata, metadataVersion } = await waitForLastVersion(web, session.id, feeds, 'metadataVersion');
    assert.deepEqual([metadata.count, metadataVersion], [10, 21], 'no update is lost');
    assert.match(metadata.name, /^name \d$/);
  });

  test('messages of two CLIs reach all clients in the same order', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'two', tag: 'shared', tokenIn: 'header' });
    const second = await connectCli(t, hub, { namespace: 'two', auth: { sessionId: session.id } });
    const web = hub.web('two');
    const feeds = await openFeeds(t, web, session.id);
    const send = (from, by) => Promise.all(indexesUpTo(200).map((n) => from.sendMessage(session.id, { by, n })));
    const acks = await Promise.all([send(cli, 'first'), send(second, 'second')]);
    assert.deepEqual(
      acks
        .flat()
        .map(({ seq }) => seq)
        .sort((a, b) => a - b),
      numbersUpTo(400),
    );
    const history = await web.readHistory(session.id);
    for (const [index, by] of ['first', 'second'].entries()) {
      const sentMessages = history.filter(({ content }) => content.by === by);
      assert.deepEqual(
        sentMessages.map(({ content }) => content.n),
        indexesUpTo(200),
        'in the order of sending',
      );
      assert.deepEqual(
        sentMessages.map(({ seq }) => seq),
        acks[index].map(({ seq }) => seq),
      );
    }
    for (const feed of feeds) {
      await feed.first(({ message }) => message?.seq === 400, 'the last message');
      const received = feed.all.filter(({ type }) => type === 'message-received');
      assert.deepEqual(
        received.map(({ message }) => message.id),
        history.map(({ id }) => id),
      );
    }
    for (const [receiver, by] of /** @type {any[]} */ ([
      [cli, 'second'],
      [second, 'first'],
    ])) {
      const seqsOfOtherCli = history.filter(({ content }) => content.by === by).map(({ seq }) => seq);
      const isNew = ({ name, payload }) => name === 'update' && payload.body.t === 'new-message';
      const isLast = (event) => isNew(event) && event.payload.body.message.seq === seqsOfOtherCli.at(-1);
      await receiver.events.first(isLast, 'the last message of the other CLI');
      const received = receiver.events.all.filter(isNew).map(({ payload }) => payload.body.message.seq);
      assert.deepEqual(received, seqsOfOtherCli, 'the messages of the other CLI, in order');
    }
  });

  test('messages sent while the session is deleted are stored before the deletion, or refused', async (t) => {
    const web = hub.web('deleted');
    const session = await web.openSession({ tag: 'deleted' });
    const cli = await connectCli(t, hub, { namespace: 'deleted', auth: { sessionId: session.id } });
    const [feed] = await openFeeds(t, web, session.id);
    const sent = indexesUpTo(50).map((n) => cli.sendMessage(session.id, { n }));
    const [deleted, ...acks] = await Promise.all([web.delete(`/api/sessions/${session.id}`), ...sent]);
    assert.ok(isOk(deleted), deleted.text);
    const stored = acks.filter((ack) => ack.ok);
    assert.deepEqual(
      stored.map(({ seq }) => seq),
      numbersUpTo(stored.length),
    );
    for (const ack of acks.slice(stored.length)) assert.deepEqual([ack.ok, ack.code], [false, 'not-found']);
    await feed.nextEvent('session-removed');
    assert.equal(feed.all.filter(({ type }) => type === 'message-received').length, stored.length);
    assert.equal((await web.get(`/api/sessions/${session.id}`)).status, 404);
    const next = await web.openSession({ tag: 'deleted' });
    assert.notEqual(next.id, session.id);
    assert.deepEqual(await web.readHistory(next.id), []);
  });
});

describe('a call whose method another socket registers before the answer', { concurrency: true }, () => {
  /** Starts a call to the session's first CLI. Before the answer, a second CLI registers the method. */
  async function startCall(t, namespace) {
    const { session, cli } = await liveSession(t, hub, { namespace, tag: 'two CLIs' });
    const [started, answer] = [deferred(), deferred()];
    await cli.serve('listSkills', () => {
      started.resolve();
      return answer.promise;
    });
    const read = async () => (await hub.web(namespace).get(`/api/sessions/${session.id}/skills`)).body;
    const call = read();
    await started.promise;
    const second = await connectCli(t, hub, { namespace, auth: { sessionId: session.id } });
    await second.serve('listSkills', () => ({ success: true, by: 'second' }));
    assert.equal((await read()).by, 'second', 'the next call goes to the second CLI');
    return { cli, call, answer };
  }

  test('is answered by the socket to which it was sent', async (t) => {
    const { call, answer } = await startCall(t, 'goes-on');
    answer.resolve({ success: true, by: 'first' });
    assert.equal((await call).by, 'first');
  });

  test('fails at once when the socket to which it was sent closes', async (t) => {
    const { cli, call } = await startCall(t, 'fails');
    cli.terminate();
    assert.deepEqual(await call, { success: false, error: 'The CLI disconnected before it answered listSkills' });
  });
});
