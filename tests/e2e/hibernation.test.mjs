/**
 * The object sleeps: about ten seconds after its last event the runtime drops its memory and keeps its sockets. Whatever
 * wakes it, all is as before, and while nothing happens nothing is asked of the database.
 */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { deferred, eventually } from './lib/await.mjs';
import { connectCli, liveSession } from './lib/cli.mjs';
import { startHub } from './lib/hub.mjs';
import { Lifetime } from './lib/lifetime.mjs';

const hub = await startHub({ wrappers: ['tally.worker.js'] });
const singleHub = await startHub({ wrappers: ['tally.worker.js'], vars: { NAMESPACE_ROUTING: 'single:solo' } });
after(() => Promise.all([hub.stop(), singleHub.stop()]));

const SESSION_MS = 30_000;
const CLOCK_MS = 250;
/** Of signs within a second a sleep remembers the first. */
const REMEMBER_MS = 1_000;
/** After so long without an event the runtime has put an object to sleep. */
const QUIET_MS = 12_000;
/** A call is given up after half a minute. */
const CALL_MS = 29_000;
/** Pings are a minute apart, heartbeats half a minute. */
const BEAT_PATIENCE_MS = 90_000;

/** Where a CLI connects and how it shows its token. */
const WAYS = {
  'the token in the upgrade': { on: hub, namespace: 'upgrade', way: 'header' },
  'the token in CONNECT, through the worker': { on: hub, namespace: 'bridged', way: 'connect' },
  'the token in CONNECT, to a hub of one namespace': { on: singleHub, namespace: 'solo', way: 'connect' },
};

/** The statements that change something. */
const writes = (statements) => statements.filter((sql) => !/^\s*SELECT/.test(sql));

/** All kinds of sockets in one namespace: two CLIs of a session, a machine's, an event stream and an event socket. */
async function crowd(t, { on, namespace, way }) {
  const web = on.web(namespace);
  const { session, cli } = await liveSession(t, on, { namespace, tag: namespace, way });
  const witness = await connectCli(t, on, { namespace, way, auth: { sessionId: session.id } });
  const machine = await web.registerMachine({ id: `machine of ${namespace}` });
  const runner = await connectCli(t, on, { namespace, way, auth: { machineId: machine.id } });
  await runner.emitWithAck('machine-alive', { machineId: machine.id, time: Date.now() });
  const query = { all: 'true', sessionId: session.id };
  const feeds = [await web.sse(query), await web.socket({ ...query, visibility: 'hidden' })];
  for (const feed of feeds) {
    t.after(() => feed.close());
    await feed.waitForGreeting();
  }
  await cli.serve('listSkills', () => ({ success: true, skills: [] }));
  await cli.serve(`${session.id}:permission`, () => ({ success: true }));
  await runner.serve('checkPathExists', ({ paths }) => Object.fromEntries(paths.map((path) => [path, true])));
  const ids = [cli, witness, runner].map(({ socket }) => socket.id);
  return { on, namespace, way, web, session, cli, witness, machine, runner, feeds, ids };
}

describe('a sleeping object', { concurrency: true }, () => {
  for (const [name, way] of Object.entries(WAYS)) {
    describe(`with its CLIs by ${name}`, { concurrency: false }, () => {
      const suite = new Lifetime();
      /** @type {Awaited<ReturnType<typeof crowd>>} */
      let all;
      before(async () => (all = await crowd(suite, way)));
      after(() => suite.end());

      /** The object sleeps, `act` wakes it, once, and no socket was lost over it. */
      function wakes(what, act) {
        test(what, async () => {
          const { on, namespace, cli, witness, runner, ids } = all;
          const slept = await on.tally(namespace);
          await on.sleep(namespace);
          await act(all);
          const woken = await on.tally(namespace);
          assert.equal(woken.wakes, slept.wakes + 1);
          assert.deepEqual([cli, witness, runner].map(({ socket }) => socket.id), ids, 'no socket had to come back');
        });
      }

      wakes('is woken by a call, which reaches who registered the method before', async ({ web, session }) => {
        const { body } = await web.get(`/api/sessions/${session.id}/skills`);
        assert.deepEqual(body, { success: true, skills: [] });
      });

      wakes('is woken by a call to a machine', async ({ web, machine }) => {
        const path = `/api/machines/${encodeURIComponent(machine.id)}/paths/exists`;
        assert.deepEqual((await web.post(path, { paths: ['/code'] })).body, { '/code': true });
      });

      wakes('is woken by a message of the web, which reaches CLIs and feeds', async ({ web, session, cli, witness, feeds }) => {
        const { body } = await web.post(`/api/sessions/${session.id}/messages`, { text: 'from the web' });
        assert.equal(body.message.seq, 1);
        for (const one of [cli, witness]) assert.equal((await one.nextUpdate('new-message')).message.seq, 1);
        for (const feed of feeds) assert.equal((await feed.nextEvent('message-received')).message.seq, 1);
      });

      wakes('is woken by a frame: a message, which is counted on and told', async ({ session, cli, witness, feeds }) => {
        assert.equal((await cli.sendMessage(session.id, 'from the CLI')).seq, 2);
        assert.equal((await witness.nextUpdate('new-message')).message.seq, 2);
        for (const feed of feeds) assert.equal((await feed.nextEvent('message-received')).message.seq, 2);
      });

      wakes('is woken by a sign of life, which writes nothing', async ({ on, namespace, session, cli }) => {
        const { statements } = await on.tally(namespace);
        assert.deepEqual(await cli.keepAlive(session.id), { ok: true });
        const woken = await on.tally(namespace);
        assert.deepEqual(writes(woken.statements), writes(statements));
        for (let n = 0; n < 5; n += 1) await cli.keepAlive(session.id);
        assert.deepEqual((await on.tally(namespace)).statements, woken.statements, 'nor is anything read once it is awake');
      });

      wakes('is woken by a machine’s sign of life, which writes nothing', async ({ on, namespace, machine, runner }) => {
        const { statements } = await on.tally(namespace);
        assert.equal((await runner.emitWithAck('machine-alive', { machineId: machine.id, time: Date.now() })).ok, true);
        assert.deepEqual(writes((await on.tally(namespace)).statements), writes(statements));
      });

      wakes('is woken by a machine’s new state', async ({ machine, runner, feeds }) => {
        const update = { machineId: machine.id, expectedVersion: 1, runnerState: { status: 'running' } };
        assert.deepEqual(await runner.emitWithAck('machine-update-state', update), {
          result: 'success',
          version: 2,
          runnerState: { status: 'running' },
        });
        for (const feed of feeds) await feed.nextEvent('machine-updated');
      });

      wakes('is woken by a rename', async ({ web, session, cli, feeds }) => {
        assert.equal((await web.patch(`/api/sessions/${session.id}`, { name: 'Renamed' })).status, 200);
        assert.equal((await cli.nextUpdate('update-session')).metadata.version, 2);
        for (const feed of feeds) await feed.nextUpdate({ metadataVersion: 2 });
      });

      wakes('is woken by a CLI that asks for permission', async ({ session, cli, feeds }) => {
        const agentState = { requests: { r1: { tool: 'shell', arguments: {} } } };
        assert.equal((await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState })).version, 2);
        for (const feed of feeds) await feed.nextUpdate({ agentStateVersion: 2 });
      });

      wakes('is woken by the answer, which reaches the CLI', async ({ web, session, cli }) => {
        const answer = await web.post(`/api/sessions/${session.id}/permissions/r1/approve`, {});
        assert.deepEqual(answer.body, { ok: true }, answer.text);
        const asked = ({ name, payload }) => name === 'rpc-request' && payload.method === `${session.id}:permission`;
        await cli.events.next(asked, 'the call with the answer');
      });

      wakes('is woken by a page that comes into view', async ({ web, feeds: [, socket] }) => {
        const { data } = await socket.waitForGreeting();
        const seen = { subscriptionId: data.subscriptionId, visibility: 'visible' };
        assert.equal((await web.post('/api/visibility', seen)).status, 200);
      });

      wakes('is woken by a web client that comes', async ({ web, session, cli }) => {
        const feed = await web.socket({ sessionId: session.id });
        suite.after(() => feed.close());
        await feed.waitForGreeting();
        const { seq } = await cli.sendMessage(session.id, 'welcome');
        assert.equal((await feed.nextEvent('message-received')).message.seq, seq);
      });

      wakes('is woken by a CLI that comes', async ({ on, namespace, way: by, web, session, machine }) => {
        const newcomer = await connectCli(suite, on, { namespace, way: by, auth: { sessionId: session.id } });
        await newcomer.serve('listSlashCommands', () => ({ success: true, commands: [] }));
        assert.equal((await web.get(`/api/sessions/${session.id}/slash-commands`)).body.success, true);
        assert.equal((await web.get(`/cli/machines/${encodeURIComponent(machine.id)}`)).body.machine.active, true);
      });

      test('is woken by a CLI that goes, and calls it no more', async () => {
        const { on, namespace, web, session, cli } = all;
        const slept = await on.tally(namespace);
        await on.sleep(namespace);
        cli.terminate();
        const noticed = async () => (await on.tally(namespace)).events.length > slept.events.length;
        await eventually(noticed, 'the object to notice');
        const { body } = await web.get(`/api/sessions/${session.id}/skills`);
        assert.deepEqual([body.success, body.error], [false, 'No handler registered for listSkills']);
      });
    });
  }
});

/** Settled when the runtime has put the object to sleep by itself. */
async function fallsAsleep(on, namespace) {
  const quiet = async () => {
    const { events } = await on.tally(namespace);
    return events.every(({ to }) => to !== null && to < Date.now() - QUIET_MS);
  };
  await eventually(quiet, 'the object to be left alone', BEAT_PATIENCE_MS);
  assert.equal(await on.sleep(namespace), false, 'it was asleep by itself');
}

describe('an object nobody asks for anything', { concurrency: true }, () => {
  const connected = async (t, namespace, way) => {
    const { session, cli } = await liveSession(t, hub, { namespace, tag: namespace, way });
    await cli.serve('listSkills', () => ({ success: true }));
    return { session, cli, web: hub.web(namespace) };
  };

  for (const way of ['header', 'connect']) {
    test(`falls asleep with all that is connected, and again after it was woken (token by ${way})`, async (t) => {
      const namespace = `asleep-${way}`;
      const { web, session, cli, runner, machine, feeds } = await crowd(t, { on: hub, namespace, way });
      for (const wake of [
        () => web.get(`/api/sessions/${session.id}/skills`),
        () => runner.emitWithAck('machine-alive', { machineId: machine.id, time: Date.now() }),
      ]) {
        await fallsAsleep(hub, namespace);
        assert.ok(await wake());
        const { seq } = await cli.sendMessage(session.id, 'still here');
        for (const feed of feeds) assert.equal((await feed.nextEvent('message-received')).message.seq, seq);
      }
    });

    test(`is woken once a minute by its pings, which ask nothing of the database (token by ${way})`, async (t) => {
      const namespace = `pinged-${way}`;
      const session = await hub.web(namespace).openSession({ tag: namespace });
      const cli = await connectCli(t, hub, { namespace, way, auth: { sessionId: session.id } });
      await hub.sleep(namespace);
      // Woken, it sets its alarm to what is still to come: the time for CONNECT is not.
      await cli.emitWithAck('ping', {});
      await hub.sleep(namespace);
      const slept = await hub.tally(namespace);
      await cli.pings.next(() => true, 'a ping', BEAT_PATIENCE_MS);
      // The client answers before anything else that it sends.
      await cli.emitWithAck('ping', {});
      const woken = await hub.tally(namespace);
      const events = woken.events.slice(slept.events.length).map(({ name, wake }) => [name, wake - slept.wakes]);
      assert.deepEqual(events, [['alarm', 1], ['webSocketMessage', 1], ['webSocketMessage', 1]]);
      assert.deepEqual(woken.statements, slept.statements);
    });
  }

  for (const kind of ['sse', 'socket']) {
    test(`is woken by its heartbeats, which ask nothing of the database (${kind})`, async (t) => {
      const namespace = `heartbeat-${kind}`;
      const web = hub.web(namespace);
      const session = await web.openSession({ tag: namespace });
      const feed = await web[kind]({ all: 'true' });
      t.after(() => feed.close());
      await feed.waitForGreeting();
      await hub.sleep(namespace);
      const slept = await hub.tally(namespace);
      await feed.next(({ type }) => type === 'heartbeat', 'a heartbeat', BEAT_PATIENCE_MS);
      const woken = await hub.tally(namespace);
      const events = woken.events.slice(slept.events.length).map(({ name, wake }) => [name, wake - slept.wakes]);
      assert.deepEqual(events, [['alarm', 1]]);
      assert.deepEqual(woken.statements, slept.statements);
      await web.patch(`/api/sessions/${session.id}`, { name: 'Renamed' });
      await feed.nextUpdate({ metadataVersion: 2 });
    });
  }

  test('is woken to end a session that gives no more signs, at the time that the last one set', async (t) => {
    const { web, session, cli } = await connected(t, 'ends', 'header');
    const feed = await web.socket({ all: 'true' });
    t.after(() => feed.close());
    await hub.sleep('ends');
    const last = Date.now();
    await cli.keepAlive(session.id);
    await hub.sleep('ends');
    // Whatever else wakes it sets no new clock.
    assert.equal((await web.get(`/api/sessions/${session.id}/skills`)).body.success, true);
    await hub.sleep('ends');
    await feed.nextUpdate({ active: false }, BEAT_PATIENCE_MS);
    assert.ok(Date.now() >= last + SESSION_MS - REMEMBER_MS - CLOCK_MS, 'not before its time');
    assert.equal(cli.socket.connected, true);
    const stored = (await hub.database()).prepare("SELECT active FROM sessions WHERE namespace = 'ends'");
    assert.equal(await stored.first('active'), 0);
  });

  test('stays awake while a call waits for its answer, however long that takes', async (t) => {
    const { web, session, cli } = await connected(t, 'waits', 'connect');
    const answer = deferred();
    await cli.serve('listSlashCommands', () => answer.promise);
    await hub.sleep('waits');
    const call = web.get(`/api/sessions/${session.id}/slash-commands`);
    await cli.events.next(({ name }) => name === 'rpc-request', 'the call');
    const { wakes } = await hub.tally('waits');
    const longAgo = async () => (await hub.tally('waits')).events.every(({ from }) => from < Date.now() - QUIET_MS);
    await eventually(longAgo, 'nothing to happen for longer than an object stays awake for nothing', CALL_MS);
    answer.resolve({ success: true, commands: [] });
    assert.deepEqual((await call).body, { success: true, commands: [] });
    assert.equal((await hub.tally('waits')).wakes, wakes);
  });
});
