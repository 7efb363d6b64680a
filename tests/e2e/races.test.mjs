/** What happens when several real clients do something to one session at once. Every order is tried in tests/it/concurrency.rs. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { deferred } from './lib/await.mjs';
import { connectCli, liveSession } from './lib/cli.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub();
after(() => hub.stop());

const numbers = (count) => Array.from({ length: count }, (_, n) => n);
const upTo = (count) => Array.from({ length: count }, (_, n) => n + 1);
const ok = ({ status }) => status === 200;

/** Two web clients who watch a session, one over each transport. */
async function watchers(t, web, sessionId) {
  const both = [await web.sse({ sessionId }), await web.socket({ sessionId })];
  t.after(() => both.forEach((feed) => feed.close()));
  return both;
}

/**
 * The session once everybody has heard of everything: all who listen heard of each version of a value once, in order, and
 * of the last one.
 */
async function agreed(web, sessionId, feeds, version) {
  const { session } = (await web.get(`/api/sessions/${sessionId}`)).body;
  for (const feed of feeds) {
    await feed.first((event) => event.data?.[version] === session[version], `${version} ${session[version]}`);
    const heard = feed.all.map((event) => event.data?.[version]).filter((heard) => heard !== undefined);
    assert.deepEqual(heard, upTo(session[version]).slice(-heard.length));
  }
  return session;
}

describe('of ten at once', { concurrency: true }, () => {
  test('who ask for a tag all get the one session that is made', async (t) => {
    const web = hub.web('tag');
    const feed = await web.socket({ all: 'true' });
    t.after(() => feed.close());
    const sessions = await Promise.all(numbers(10).map(() => web.openSession({ tag: 'wanted' })));
    assert.equal(new Set(sessions.map(({ id }) => id)).size, 1);
    assert.equal((await web.get('/api/sessions')).body.sessions.length, 1);
    await web.patch(`/api/sessions/${sessions[0].id}`, { name: 'the end' });
    await feed.nextEvent('session-updated');
    assert.equal(feed.all.filter(({ type }) => type === 'session-added').length, 1);
  });

  test('who answer a permission request one wins, and the CLI hears of that one only', async (t) => {
    const { session, cli } = await liveSession(t, hub, {
      namespace: 'answers',
      tag: 'answered',
      agentState: { requests: { r1: { tool: 'shell', arguments: {} } } },
    });
    const web = hub.web('answers');
    const feeds = await watchers(t, web, session.id);
    const heard = [];
    await cli.serve('permission', (answer) => {
      heard.push(answer.approved);
      return {};
    });
    const verbs = numbers(10).map((n) => (n % 2 === 0 ? 'approve' : 'deny'));
    const path = `/api/sessions/${session.id}/permissions/r1`;
    const answers = await Promise.all(verbs.map((verb) => web.post(`${path}/${verb}`, {})));
    const winner = verbs[answers.findIndex(ok)];
    assert.deepEqual(heard, [winner === 'approve']);
    for (const { status, body } of answers.filter((answer) => !ok(answer))) {
      assert.deepEqual([status, body.code], [404, 'request_not_found']);
    }
    assert.equal(answers.filter(ok).length, 1);
    const { agentState } = await agreed(web, session.id, feeds, 'agentStateVersion');
    assert.equal(agentState.completedRequests.r1.status, winner === 'approve' ? 'approved' : 'denied');
  });

  test('who resume a session all get it back, and its machine is asked once', async (t) => {
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
    const answers = await Promise.all(numbers(10).map(() => web.post(`/api/sessions/${session.id}/resume`)));
    for (const { text, body } of answers) assert.deepEqual(body, { success: true, sessionId: session.id }, text);
    assert.equal(spawned, 1);
  });
});

describe('at once on one session', { concurrency: true }, () => {
  test('renames and updates of the metadata never undo each other', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'names', tag: 'named' });
    const web = hub.web('names');
    const feeds = await watchers(t, web, session.id);
    const rename = (n) => web.patch(`/api/sessions/${session.id}`, { name: `name ${n}` });
    /** What a CLI does: it tries again upon what it is told stands. */
    const count = async () => {
      for (let [version, metadata] = [1, session.metadata]; ; ) {
        const counted = { ...metadata, count: (metadata.count ?? 0) + 1 };
        const answer = await cli.emitWithAck('update-metadata', { sid: session.id, expectedVersion: version, metadata: counted });
        if (answer.result === 'success') return;
        assert.equal(answer.result, 'version-mismatch');
        ({ version, metadata } = answer);
      }
    };
    const [renames] = await Promise.all([Promise.all(numbers(10).map(rename)), Promise.all(numbers(10).map(count))]);
    assert.ok(renames.every(ok));
    const { metadata, metadataVersion } = await agreed(web, session.id, feeds, 'metadataVersion');
    assert.deepEqual([metadata.count, metadataVersion], [10, 21], 'nothing got lost');
    assert.match(metadata.name, /^name \d$/);
  });

  test('two CLIs write one history, in one order for everybody', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'two', tag: 'shared', way: 'header' });
    const second = await connectCli(t, hub, { namespace: 'two', auth: { sessionId: session.id } });
    const web = hub.web('two');
    const feeds = await watchers(t, web, session.id);
    const say = (from, by) => Promise.all(numbers(200).map((n) => from.sendMessage(session.id, { by, n })));
    const acks = await Promise.all([say(cli, 'first'), say(second, 'second')]);
    assert.deepEqual(acks.flat().map(({ seq }) => seq).sort((a, b) => a - b), upTo(400));
    const history = await web.readHistory(session.id);
    for (const [at, by] of ['first', 'second'].entries()) {
      const own = history.filter(({ content }) => content.by === by);
      assert.deepEqual(own.map(({ content }) => content.n), numbers(200), 'in the order of saying');
      assert.deepEqual(own.map(({ seq }) => seq), acks[at].map(({ seq }) => seq));
    }
    for (const feed of feeds) {
      await feed.first(({ message }) => message?.seq === 400, 'the last message');
      const heard = feed.all.filter(({ type }) => type === 'message-received');
      assert.deepEqual(heard.map(({ message }) => message.id), history.map(({ id }) => id));
    }
    for (const [hearer, by] of [[cli, 'second'], [second, 'first']]) {
      const others = history.filter(({ content }) => content.by === by).map(({ seq }) => seq);
      const isNew = ({ name, payload }) => name === 'update' && payload.body.t === 'new-message';
      const isLast = (event) => isNew(event) && event.payload.body.message.seq === others.at(-1);
      await hearer.events.first(isLast, 'the other’s last message');
      const heard = hearer.events.all.filter(isNew).map(({ payload }) => payload.body.message.seq);
      assert.deepEqual(heard, others, 'what the other one said, in order');
    }
  });

  test('what is said while the session is deleted is kept until then, or refused', async (t) => {
    const web = hub.web('deleted');
    const session = await web.openSession({ tag: 'doomed' });
    const cli = await connectCli(t, hub, { namespace: 'deleted', auth: { sessionId: session.id } });
    const [feed] = await watchers(t, web, session.id);
    const said = numbers(50).map((n) => cli.sendMessage(session.id, { n }));
    const [deleted, ...acks] = await Promise.all([web.delete(`/api/sessions/${session.id}`), ...said]);
    assert.ok(ok(deleted), deleted.text);
    const kept = acks.filter((ack) => ack.ok);
    assert.deepEqual(kept.map(({ seq }) => seq), upTo(kept.length));
    for (const ack of acks.slice(kept.length)) assert.deepEqual([ack.ok, ack.code], [false, 'not-found']);
    await feed.nextEvent('session-removed');
    assert.equal(feed.all.filter(({ type }) => type === 'message-received').length, kept.length);
    assert.equal((await web.get(`/api/sessions/${session.id}`)).status, 404);
    const next = await web.openSession({ tag: 'doomed' });
    assert.notEqual(next.id, session.id);
    assert.deepEqual(await web.readHistory(next.id), []);
  });
});

describe('a call whose method another socket takes over', { concurrency: true }, () => {
  /** A call that is open at the session's first CLI, while the second one serves its method by now. */
  async function takenOver(t, namespace) {
    const { session, cli } = await liveSession(t, hub, { namespace, tag: 'taken over' });
    const [asked, answer] = [deferred(), deferred()];
    await cli.serve('listSkills', () => {
      asked.resolve();
      return answer.promise;
    });
    const read = async () => (await hub.web(namespace).get(`/api/sessions/${session.id}/skills`)).body;
    const call = read();
    await asked.promise;
    const second = await connectCli(t, hub, { namespace, auth: { sessionId: session.id } });
    await second.serve('listSkills', () => ({ success: true, by: 'second' }));
    assert.equal((await read()).by, 'second', 'the next call is its own');
    return { cli, call, answer };
  }

  test('goes on at the socket that it went to', async (t) => {
    const { call, answer } = await takenOver(t, 'goes-on');
    answer.resolve({ success: true, by: 'first' });
    assert.equal((await call).by, 'first');
  });

  test('fails at once when that socket closes', async (t) => {
    const { cli, call } = await takenOver(t, 'fails');
    cli.terminate();
    assert.deepEqual(await call, { success: false, error: 'The CLI disconnected before it answered listSkills' });
  });
});
