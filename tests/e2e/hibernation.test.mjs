/**
 * Hibernation: ten seconds after an object's last event, the runtime evicts it from memory and keeps its sockets. Every kind
 * of event wakes it with its state, and an idle object does not use the database.
 */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { connectAll } from './lib/all-sockets.mjs';
import { deferred, eventually } from '../../scripts/lib/await.mjs';
import { CHANNELS, openFeed } from './lib/channels.mjs';
import { connectCli, liveSession } from '../../scripts/lib/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';
import { Lifetime } from './lib/lifetime.mjs';
import { RawCli } from './lib/raw-cli.mjs';

const hub = await startHub({ wrappers: ['tally.worker.js'] });
const singleHub = await startHub({ wrappers: ['tally.worker.js'], vars: { NAMESPACE_ROUTING: 'single:solo' } });
after(() => Promise.all([hub.stop(), singleHub.stop()]));

const SESSION_TIMEOUT_MS = 30_000;
const CLOCK_TOLERANCE_MS = 250;
/** If several keep-alives arrive within a second, the time of the first survives hibernation. */
const KEEP_ALIVE_PRECISION_MS = 1_000;
/** The time without events after which the runtime has hibernated an object: ten seconds, and more on a busy computer. */
const IDLE_MS = 15_000;
/** Less than the time limit of a call. */
const CALL_DURATION_MS = 29_000;
/** Time limit for pings, which are 60 s apart, and heartbeats, which are 30 s apart. */
const PING_TIMEOUT_MS = 90_000;

/** For each way to connect: the hub, and the options of a CLI. */
const CONNECTION_METHODS = {
  'the token in the upgrade': { target: hub, namespace: 'upgrade', tokenIn: 'header' },
  'the token in CONNECT, through the worker': { target: hub, namespace: 'bridged', tokenIn: 'connect' },
  'the token in CONNECT, to a hub of one namespace': { target: singleHub, namespace: 'solo', tokenIn: 'connect' },
};

/** Returns the statements that write. */
const writesAmong = (statements) => statements.filter((sql) => !/^\s*SELECT/.test(sql));

describe('a hibernating object', { concurrency: true }, () => {
  for (const [name, method] of Object.entries(CONNECTION_METHODS)) {
    describe(`with its CLIs by ${name}`, { concurrency: false }, () => {
      const suite = new Lifetime();
      /** @type {Awaited<ReturnType<typeof connectAll>>} */
      let clients;
      before(async () => (clients = await connectAll(suite, method)));
      after(() => suite.end());

      /** Hibernates the object and runs `wake`, which must wake the object once and close no socket. */
      function testWake(name, wake) {
        test(name, async () => {
          const { target, namespace, session, cli, second, runner, ids } = clients;
          // On a slow computer, the session may have become inactive during the previous tests.
          await cli.keepAlive(session.id);
          const tallyBefore = await target.readTally(namespace);
          await target.hibernate(namespace);
          await wake(clients);
          const tallyAfter = await target.readTally(namespace);
          assert.equal(tallyAfter.wakes, tallyBefore.wakes + 1);
          assert.deepEqual(
            [cli, second, runner].map(({ socket }) => socket.id),
            ids,
            'no socket has reconnected',
          );
        });
      }

      testWake('is woken by an RPC, which reaches the CLI that registered the method before', async ({ web, session }) => {
        const { body } = await web.get(`/api/sessions/${session.id}/skills`);
        assert.deepEqual(body, { success: true, skills: [] });
      });

      testWake('is woken by an RPC to a machine', async ({ web, machine }) => {
        const path = `/api/machines/${encodeURIComponent(machine.id)}/paths/exists`;
        assert.deepEqual((await web.post(path, { paths: ['/code'] })).body, { '/code': true });
      });

      testWake('is woken by a web client’s message, which reaches CLIs and feeds', async ({ web, session, cli, second, feeds }) => {
        const { body } = await web.post(`/api/sessions/${session.id}/messages`, { text: 'from the web' });
        assert.equal(body.message.seq, 1);
        for (const receiver of [cli, second]) assert.equal((await receiver.nextUpdate('new-message')).message.seq, 1);
        for (const feed of feeds) assert.equal((await feed.nextEvent('message-received')).message.seq, 1);
      });

      testWake('is woken by a CLI’s message, which gets the next seq and is published', async ({ session, cli, second, feeds }) => {
        assert.equal((await cli.sendMessage(session.id, 'from the CLI')).seq, 2);
        assert.equal((await second.nextUpdate('new-message')).message.seq, 2);
        for (const feed of feeds) assert.equal((await feed.nextEvent('message-received')).message.seq, 2);
      });

      testWake('is woken by a keep-alive, which writes nothing', async ({ target, namespace, session, cli }) => {
        const { statements } = await target.readTally(namespace);
        assert.deepEqual(await cli.keepAlive(session.id), { ok: true });
        const tallyAfter = await target.readTally(namespace);
        assert.deepEqual(writesAmong(tallyAfter.statements), writesAmong(statements));
        for (let n = 0; n < 5; n += 1) await cli.keepAlive(session.id);
        const { statements: laterStatements } = await target.readTally(namespace);
        assert.deepEqual(laterStatements, tallyAfter.statements, 'once the object is awake, a keep-alive reads nothing either');
      });

      testWake('is woken by a machine’s keep-alive, which writes nothing', async ({ target, namespace, machine, runner }) => {
        const { statements } = await target.readTally(namespace);
        assert.equal((await runner.emitWithAck('machine-alive', { machineId: machine.id, time: Date.now() })).ok, true);
        assert.deepEqual(writesAmong((await target.readTally(namespace)).statements), writesAmong(statements));
      });

      testWake('is woken by an update of a machine’s state', async ({ machine, runner, feeds }) => {
        const update = { machineId: machine.id, expectedVersion: 1, runnerState: { status: 'running' } };
        assert.deepEqual(await runner.emitWithAck('machine-update-state', update), {
          result: 'success',
          version: 2,
          runnerState: { status: 'running' },
        });
        for (const feed of feeds) await feed.nextEvent('machine-updated');
      });

      testWake('is woken by a rename', async ({ web, session, cli, feeds }) => {
        assert.equal((await web.patch(`/api/sessions/${session.id}`, { name: 'Renamed' })).status, 200);
        assert.equal((await cli.nextUpdate('update-session')).metadata.version, 2);
        for (const feed of feeds) await feed.nextUpdate({ metadataVersion: 2 });
      });

      testWake('is woken by a permission request', async ({ session, cli, feeds }) => {
        const agentState = { requests: { r1: { tool: 'shell', arguments: {} } } };
        assert.equal((await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState })).version, 2);
        for (const feed of feeds) await feed.nextUpdate({ agentStateVersion: 2 });
      });

      testWake('is woken by the answer to a permission request, which reaches the CLI', async ({ web, session, cli }) => {
        const answer = await web.post(`/api/sessions/${session.id}/permissions/r1/approve`, {});
        assert.deepEqual(answer.body, { ok: true }, answer.text);
        const isAnswer = ({ name, payload }) => name === 'rpc-request' && payload.method === `${session.id}:permission`;
        await cli.events.next(isAnswer, 'the RPC with the answer');
      });

      testWake('is woken by a change of a page’s visibility', async ({ web, feeds: [, socket] }) => {
        const { data } = await socket.waitForGreeting();
        const visible = { subscriptionId: data.subscriptionId, visibility: 'visible' };
        assert.equal((await web.post('/api/visibility', visible)).status, 200);
      });

      testWake('is woken by a web client that subscribes', async ({ web, session, cli }) => {
        const feed = await web.openSocket({ sessionId: session.id });
        suite.after(() => feed.close());
        await feed.waitForGreeting();
        const { seq } = await cli.sendMessage(session.id, 'welcome');
        assert.equal((await feed.nextEvent('message-received')).message.seq, seq);
      });

      testWake('is woken by a CLI that connects', async ({ target, namespace, tokenIn, web, session, machine }) => {
        const newcomer = await connectCli(suite, target, { namespace, tokenIn, auth: { sessionId: session.id } });
        await newcomer.serve('listSlashCommands', () => ({ success: true, commands: [] }));
        assert.equal((await web.get(`/api/sessions/${session.id}/slash-commands`)).body.success, true);
        assert.equal((await web.get(`/cli/machines/${encodeURIComponent(machine.id)}`)).body.machine.active, true);
      });

      test('is woken by a CLI that disconnects, and no longer calls this CLI', async () => {
        const { target, namespace, web, session, cli } = clients;
        const tallyBefore = await target.readTally(namespace);
        await target.hibernate(namespace);
        cli.terminate();
        const hasNoticed = async () => (await target.readTally(namespace)).events.length > tallyBefore.events.length;
        await eventually(hasNoticed, 'the object to notice');
        const { body } = await web.get(`/api/sessions/${session.id}/skills`);
        assert.deepEqual([body.success, body.error], [false, 'No handler registered for listSkills']);
      });
    });
  }
});

/** Waits until the object has been idle for `IDLE_MS`. After that time, an alarm may wake the object. */
async function waitUntilIdle(target, namespace) {
  const isIdle = async () => {
    // The time before the tally is read: an event that comes while the tally is on its way must not shorten the idle time.
    const endedBefore = Date.now() - IDLE_MS;
    const { events } = await target.readTally(namespace);
    return events.every(({ to }) => to !== null && to < endedBefore);
  };
  await eventually(isIdle, 'the object to be idle', PING_TIMEOUT_MS);
}

/**
 * Checks that the object was loaded again for each event that followed an idle time of `IDLE_MS`.
 * @returns {Promise<number>} the number of these events
 */
async function countWakes(target, namespace) {
  const { events } = await target.readTally(namespace);
  let wakes = 0;
  let idleSince = 0;
  for (const [index, { name, wake, from, to }] of events.entries()) {
    if (index > 0 && from - idleSince > IDLE_MS) {
      wakes += 1;
      assert.equal(wake, events[index - 1].wake + 1, `the runtime had hibernated the object before this ${name}`);
    }
    // An event that has not ended keeps the object in memory.
    idleSince = Math.max(idleSince, to ?? Infinity);
  }
  return wakes;
}

describe('an idle object', { concurrency: true }, () => {
  const connectActiveCli = async (t, namespace, tokenIn) => {
    const { session, cli } = await liveSession(t, hub, { namespace, tag: namespace, tokenIn, isSilent: true });
    await cli.serve('listSkills', () => ({ success: true }));
    return { session, cli, web: hub.web(namespace) };
  };

  for (const tokenIn of ['header', 'connect']) {
    test(`hibernates with its connections, and again after it was woken (token by ${tokenIn})`, async (t) => {
      const namespace = `hibernated-${tokenIn}`;
      const { web, session, cli, runner, machine, feeds } = await connectAll(t, { target: hub, namespace, tokenIn });
      for (const wake of [
        () => web.get(`/api/sessions/${session.id}/skills`),
        () => runner.emitWithAck('machine-alive', { machineId: machine.id, time: Date.now() }),
      ]) {
        await waitUntilIdle(hub, namespace);
        assert.ok(await wake());
        const { seq } = await cli.sendMessage(session.id, 'still here');
        for (const feed of feeds) assert.equal((await feed.nextEvent('message-received')).message.seq, seq);
      }
      assert.ok((await countWakes(hub, namespace)) >= 2);
    });

    test(`is woken every 30 s by its pings, which do not use the database (token by ${tokenIn})`, async (t) => {
      const namespace = `pinged-${tokenIn}`;
      const session = await hub.web(namespace).openSession({ tag: namespace });
      const cli = await connectCli(t, hub, { namespace, tokenIn, auth: { sessionId: session.id } });
      // Right after a ping, the next ping is 30 s away.
      await cli.pings.next(() => true, 'a ping', PING_TIMEOUT_MS);
      // The client answers the hub's ping before it sends this event.
      await cli.emitWithAck('ping', {});
      await hub.hibernate(namespace);
      const tallyBefore = await hub.readTally(namespace);
      await cli.pings.next(() => true, 'the next ping', PING_TIMEOUT_MS);
      await cli.emitWithAck('ping', {});
      const tallyAfter = await hub.readTally(namespace);
      const events = tallyAfter.events.slice(tallyBefore.events.length).map(({ name, wake }) => [name, wake - tallyBefore.wakes]);
      assert.deepEqual(events, [
        ['alarm', 1],
        ['webSocketMessage', 1],
        ['webSocketMessage', 1],
      ]);
      assert.deepEqual(tallyAfter.statements, tallyBefore.statements);
    });
  }

  for (const channel of Object.keys(CHANNELS)) {
    test(`is woken by its heartbeats, which do not use the database (${channel})`, async (t) => {
      const namespace = `heartbeat-${channel}`;
      const web = hub.web(namespace);
      const session = await web.openSession({ tag: namespace });
      const feed = await openFeed(t, web, channel, { all: 'true' });
      const waitForHeartbeat = () => feed.next(({ type }) => type === 'heartbeat', 'a heartbeat', PING_TIMEOUT_MS);
      // Right after a heartbeat, the next heartbeat is 30 s away.
      await waitForHeartbeat();
      await hub.hibernate(namespace);
      const tallyBefore = await hub.readTally(namespace);
      await waitForHeartbeat();
      const tallyAfter = await hub.readTally(namespace);
      const events = tallyAfter.events.slice(tallyBefore.events.length).map(({ name, wake }) => [name, wake - tallyBefore.wakes]);
      assert.deepEqual(events, [['alarm', 1]]);
      assert.deepEqual(tallyAfter.statements, tallyBefore.statements);
      await web.patch(`/api/sessions/${session.id}`, { name: 'Renamed' });
      await feed.nextUpdate({ metadataVersion: 2 });
    });
  }

  test('is woken to mark a session inactive 30 s after its last keep-alive', async (t) => {
    const { web, session, cli } = await connectActiveCli(t, 'ends', 'header');
    const feed = await web.openSocket({ all: 'true' });
    t.after(() => feed.close());
    await hub.hibernate('ends');
    const last = Date.now();
    await cli.keepAlive(session.id);
    await hub.hibernate('ends');
    // A call of the CLI does not keep the session active.
    assert.equal((await web.get(`/api/sessions/${session.id}/skills`)).body.success, true);
    await hub.hibernate('ends');
    await feed.nextUpdate({ active: false }, PING_TIMEOUT_MS);
    assert.ok(Date.now() >= last + SESSION_TIMEOUT_MS - KEEP_ALIVE_PRECISION_MS - CLOCK_TOLERANCE_MS, 'not too early');
    assert.equal(cli.socket.connected, true);
    const stored = (await hub.database()).prepare("SELECT active FROM sessions WHERE namespace = 'ends'");
    assert.equal(await stored.first('active'), 0);
  });

  test('hibernates even if a CLI connected while another CLI disconnected', async (t) => {
    const namespaces = Array.from({ length: 12 }, (_, index) => `overlapping-${index}`);
    const clis = [];
    for (const namespace of namespaces) {
      const session = await hub.web(namespace).openSession({ tag: namespace });
      const connect = () => connectCli(t, hub, { namespace, auth: { sessionId: session.id } });
      const leaving = await connect();
      await leaving.emitWithAck('ping', {});
      leaving.close();
      const staying = await connect();
      await staying.emitWithAck('ping', {});
      clis.push(staying);
    }
    const wakeAfterHibernation = async (namespace, index) => {
      await waitUntilIdle(hub, namespace);
      await clis[index].emitWithAck('ping', {});
      assert.ok((await countWakes(hub, namespace)) >= 1);
    };
    await Promise.all(namespaces.map(wakeAfterHibernation));
  });

  test('does not restore closed sockets whose clients do not answer the close', async (t) => {
    const web = hub.web('unanswered');
    const auth = { machineId: (await web.registerMachine({ id: 'm-unanswered' })).id };
    const method = `${auth.machineId}:checkPathExists`;
    const [lateCli, lostCli] = [new RawCli(hub, 'unanswered'), new RawCli(hub, 'unanswered')];
    for (const closedCli of [lateCli, lostCli]) {
      t.after(() => closedCli.destroy());
      await closedCli.connect(auth);
      await closedCli.register(method);
      closedCli.send('not a packet');
      assert.equal(await closedCli.waitForCloseFrame(), 1002);
    }
    const frames = [lateCli, lostCli].map((closedCli) => closedCli.frames.all.length);

    const runner = await connectCli(t, hub, { namespace: 'unanswered', tokenIn: 'header', auth });
    await runner.serve(method, ({ paths }) => Object.fromEntries(paths.map((path) => [path, true])));
    const assertCalled = async () => {
      const { body } = await web.post(`/api/machines/${auth.machineId}/paths/exists`, { paths: ['/code'] });
      assert.deepEqual(body, { '/code': true });
    };
    const assertCalledAfterHibernation = async () => {
      await hub.hibernate('unanswered');
      await assertCalled();
    };
    // From the second hibernation on, the runtime reports the closed sockets as open.
    for (let n = 0; n < 3; n += 1) await assertCalledAfterHibernation();
    // A socket that answers no ping is disconnected after the third ping.
    for (let n = 0; n < 4; n += 1) await runner.pings.next(() => true, 'a ping', PING_TIMEOUT_MS);
    await assertCalled();

    lateCli.send('42/cli,["rpc-register",{"method":"checkPathExists"}]');
    await assertCalled();
    for (const end of [() => lateCli.answerClose(), () => lostCli.destroy()]) {
      const { events } = await hub.readTally('unanswered');
      end();
      const closeEvents = ({ events }) => events.filter(({ name }) => name === 'webSocketClose').length;
      const isHandled = async () => closeEvents(await hub.readTally('unanswered')) > closeEvents({ events });
      await eventually(isHandled, 'the close event');
      await assertCalledAfterHibernation();
    }
    assert.deepEqual(
      [lateCli, lostCli].map((closedCli) => closedCli.frames.all.length),
      frames,
      'nothing follows the close frame',
    );
  });

  test('is not hibernated while an RPC is pending', async (t) => {
    const { web, session, cli } = await connectActiveCli(t, 'waits', 'connect');
    const answer = deferred();
    await cli.serve('listSlashCommands', () => answer.promise);
    // Right after a ping, the next ping is 30 s away, so that the object is idle for long enough.
    await cli.pings.next(() => true, 'a ping', PING_TIMEOUT_MS);
    await cli.emitWithAck('ping', {});
    await hub.hibernate('waits');
    const call = web.get(`/api/sessions/${session.id}/slash-commands`);
    await cli.events.next(({ name }) => name === 'rpc-request', 'the call');
    const { wakes } = await hub.readTally('waits');
    const isIdle = async () => {
      const startedBefore = Date.now() - IDLE_MS;
      return (await hub.readTally('waits')).events.every(({ from }) => from < startedBefore);
    };
    await eventually(isIdle, 'the object to have no events for longer than the hibernation delay', CALL_DURATION_MS);
    answer.resolve({ success: true, commands: [] });
    assert.deepEqual((await call).body, { success: true, commands: [] });
    assert.equal((await hub.readTally('waits')).wakes, wakes);
  });
});
