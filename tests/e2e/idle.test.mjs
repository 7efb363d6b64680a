/** The runtime evicts an object from memory ten seconds after its last event, and keeps its sockets. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { connectAll } from './lib/all-sockets.mjs';
import { deferred, eventually } from '../../scripts/lib/await.mjs';
import { connectCli, liveSession } from '../../scripts/product/clients/cli.mjs';
import { TALLY_WORKER, startHub } from './lib/hub.mjs';

/** Longer than the test waits for an idle time, which pings interrupt every 30 s. */
const RPC_TIMEOUT_MS = 300_000;

const hub = await startHub({ after }, { wrappers: TALLY_WORKER, vars: { RPC_TIMEOUT_MS } });

/** The time without events after which the runtime has hibernated an object: ten seconds, and more on a busy computer. */
const IDLE_MS = 15_000;
/** Time limit for an idle time. */
const IDLE_TIMEOUT_MS = 120_000;

/** Waits until the object has been idle for `IDLE_MS`. After that time, an alarm may wake the object. */
async function waitUntilIdle(target, namespace) {
  const isIdle = async () => {
    // The time before the tally is read: an event that comes while the tally is on its way must not shorten the idle time.
    const endedBefore = Date.now() - IDLE_MS;
    const { events } = await target.readTally(namespace);
    return events.every(({ to }) => to !== null && to < endedBefore);
  };
  await eventually(isIdle, 'the object to be idle', IDLE_TIMEOUT_MS);
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
  test('hibernates with its connections, and again after it was woken', async (t) => {
    const namespace = 'hibernated';
    const { web, session, cli, runner, machine, feeds } = await connectAll(t, { target: hub, namespace, tokenIn: 'connect' });
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

  test('is not hibernated while an RPC is pending', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'waits', tag: 'waits', isSilent: true });
    const answer = deferred();
    await cli.serve('listSlashCommands', () => answer.promise);
    await hub.hibernate('waits');
    const call = hub.web('waits').get(`/api/sessions/${session.id}/slash-commands`);
    await cli.events.next(({ name }) => name === 'rpc-request', 'the call');
    const { wakes } = await hub.readTally('waits');
    const isIdle = async () => {
      const startedBefore = Date.now() - IDLE_MS;
      return (await hub.readTally('waits')).events.every(({ from }) => from < startedBefore);
    };
    await eventually(isIdle, 'the object to have no events for longer than the hibernation delay', IDLE_TIMEOUT_MS);
    answer.resolve({ success: true, commands: [] });
    assert.deepEqual((await call).body, { success: true, commands: [] });
    assert.equal((await hub.readTally('waits')).wakes, wakes);
  });
});
