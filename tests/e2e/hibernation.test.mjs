/**
 * Hibernation: each kind of event wakes an object that was evicted from memory, with its sockets and its state. An idle object does not
 * use the database. idle.test.mjs waits until the runtime evicts an object.
 */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { connectAll } from './lib/all-sockets.mjs';
import { eventually } from '../../scripts/lib/await.mjs';
import { CHANNELS, openFeed } from './lib/channels.mjs';
import { connectCli } from '../../scripts/product/clients/cli.mjs';
import { TALLY_WORKER, startHub } from './lib/hub.mjs';
import { Lifetime } from './lib/lifetime.mjs';
import { RawCli } from './lib/raw-cli.mjs';

const hub = await startHub({ after }, { wrappers: TALLY_WORKER });
const singleHub = await startHub({ after }, { wrappers: TALLY_WORKER, vars: { NAMESPACE_ROUTING: 'single:solo' } });

/** The interval of pings and heartbeats, which are due at its multiples. */
const TICK_MS = 30_000;

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
          assert.deepEqual(pluck([cli, second, runner], 'socket.id'), ids, 'no socket has reconnected');
        });
      }

      testWake('is woken by an RPC, which reaches the CLI that registered the method before', async ({ web, session }) => {
        const { body } = await web.get(`/api/sessions/${session.id}/skills`);
        assert.deepEqual(body, { success: true, skills: [] });
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

/** Returns the events of an object since an earlier tally, each with its name and its number of wakes since then. */
async function eventsSince(namespace, earlier) {
  const { events } = await hub.readTally(namespace);
  return events.slice(earlier.events.length).map(({ name, wake }) => [name, wake - earlier.wakes]);
}

/** Advances the clock to the next tick, so that the tick after it is `TICK_MS` away. */
async function advanceToTick(namespace) {
  const now = await hub.advance(namespace, 0);
  await hub.advance(namespace, TICK_MS - (now % TICK_MS));
}

describe('an idle object', () => {
  for (const tokenIn of ['header', 'connect']) {
    test(`is woken every 30 s by its pings, which do not use the database (token by ${tokenIn})`, async (t) => {
      const namespace = `pinged-${tokenIn}`;
      const session = await hub.web(namespace).openSession({ tag: namespace });
      const cli = await connectCli(t, hub, { namespace, tokenIn, auth: { sessionId: session.id } });
      await advanceToTick(namespace);
      await cli.pings.next(() => true, 'a ping');
      // The client answers the hub's ping before it sends this event.
      await cli.emitWithAck('ping', {});
      await hub.hibernate(namespace);
      const tallyBefore = await hub.readTally(namespace);
      await hub.advance(namespace, TICK_MS);
      await cli.pings.next(() => true, 'the next ping');
      await cli.emitWithAck('ping', {});
      assert.deepEqual(await eventsSince(namespace, tallyBefore), [
        ['alarm', 1],
        ['webSocketMessage', 1],
        ['webSocketMessage', 1],
      ]);
      assert.deepEqual((await hub.readTally(namespace)).statements, tallyBefore.statements);
    });
  }

  for (const channel of Object.keys(CHANNELS)) {
    test(`is woken by its heartbeats, which do not use the database (${channel})`, async (t) => {
      const namespace = `heartbeat-${channel}`;
      const web = hub.web(namespace);
      const session = await web.openSession({ tag: namespace });
      const feed = await openFeed(t, web, channel, { all: 'true' });
      const waitForHeartbeat = () => feed.next(({ type }) => type === 'heartbeat', 'a heartbeat');
      await advanceToTick(namespace);
      await waitForHeartbeat();
      await hub.hibernate(namespace);
      const tallyBefore = await hub.readTally(namespace);
      await hub.advance(namespace, TICK_MS);
      await waitForHeartbeat();
      assert.deepEqual(await eventsSince(namespace, tallyBefore), [['alarm', 1]]);
      assert.deepEqual((await hub.readTally(namespace)).statements, tallyBefore.statements);
      await web.patch(`/api/sessions/${session.id}`, { name: 'Renamed' });
      await feed.nextUpdate({ metadataVersion: 2 });
    });
  }

  test('does not restore closed sockets whose clients do not answer the close', async (t) => {
    const web = hub.web('unanswered');
    const auth = { machineId: (await web.registerMachine({ id: 'm-unanswered' })).id };
    const method = `${auth.machineId}:checkPathExists`;
    const [lateCli, lostCli] = [new RawCli(t, hub, 'unanswered'), new RawCli(t, hub, 'unanswered')];
    for (const closedCli of [lateCli, lostCli]) {
      await closedCli.connect(auth);
      await closedCli.register(method);
      closedCli.send('not a packet');
      assert.equal(await closedCli.waitForCloseFrame(), 1002);
    }
    const frames = [lateCli, lostCli].map((closedCli) => closedCli.received.length);

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
    for (let n = 0; n < 4; n += 1) {
      await hub.advance('unanswered', TICK_MS);
      await runner.pings.next(() => true, 'a ping');
      // The client answers the hub's ping before it sends this event.
      await runner.emitWithAck('ping', {});
    }
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
    assert.deepEqual(pluck([lateCli, lostCli], 'received.length'), frames, 'nothing follows the close frame');
  });
});
