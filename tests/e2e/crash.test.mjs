/**
 * Kills the runtime at random times under load. Clients reconnect, and no acknowledged data is lost. `npm run kills` runs
 * this test with more kills.
 */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../scripts/lib/await.mjs';
import {
  checkAgent,
  checkLiveness,
  checkMessages,
  checkReaders,
  checkRequests,
  checkUpdates,
  readStoredSession,
} from './lib/crash/checks.mjs';
import { SessionLoad } from './lib/crash/session-load.mjs';
import { AgentLoad } from './lib/crash/agent-load.mjs';
import { ReliableCli } from './lib/crash/reliable-cli.mjs';
import { ReliableMachine } from './lib/crash/reliable-machine.mjs';
import { LoadTest } from './lib/crash/load-test.mjs';
import { Updater } from './lib/crash/updater.mjs';
import { startHub } from './lib/hub.mjs';

const KILLS = Number(process.env.CRASH_KILLS ?? 3);
const SEED = process.env.CRASH_SEED ?? '1';
/** The longest time from the restart of the runtime to an early kill. */
const EARLY_KILL_MS = 200;
/** The longest time from the moment when all clients have resumed to a late kill. */
const LATE_KILL_MS = 1_000;

const hub = await startHub({ after });

/** Creates a session whose CLI sends only keep-alives, a session without a CLI, and a machine. */
async function addIdleClients(loadTest, namespace) {
  const web = hub.web(namespace);
  const session = await web.openSession({ tag: 'quiet' });
  const idle = await web.openSession({ tag: 'idle' });
  const machine = await web.registerMachine({ id: 'm-storm', runnerState: {} });
  const quiet = new ReliableCli(loadTest, { name: 'quiet', namespace, session, tokenIn: 'query', sendsMessages: false });
  const machineClient = new ReliableMachine(loadTest, { name: 'machine', namespace, machine });
  const subject = { machineId: machine.id };
  const [metadataUpdater, stateUpdater] = [
    { event: 'machine-update-metadata', key: 'metadata', version: machine.metadataVersion, value: machine.metadata },
    { event: 'machine-update-state', key: 'runnerState', version: machine.runnerStateVersion, value: machine.runnerState },
  ].map((options) => new Updater(machineClient, { subject, ...options }));
  return { web, idle, quiet, machineClient, metadataUpdater, stateUpdater };
}

test(`${KILLS} kills under load lose nothing`, async (t) => {
  t.diagnostic(`seed ${SEED}`);
  const loadTest = new LoadTest(hub, SEED);
  const loadSession = async (namespace, tag, options) =>
    new SessionLoad(loadTest, namespace, await hub.web(namespace).openSession({ tag }), options);
  const loads = [
    await loadSession('storm', 'busy', { tokensIn: ['header', 'connect'], channels: ['stream', 'socket'], writers: 2 }),
    await loadSession('storm', 'bridged', { tokensIn: ['connect'], channels: ['stream'] }),
    await loadSession('elsewhere', 'direct', { tokensIn: ['query'], channels: ['socket'] }),
  ];
  const { web, idle, quiet, machineClient, metadataUpdater, stateUpdater } = await addIdleClients(loadTest, 'storm');
  const clis = loads.flatMap((load) => load.clis);
  const agent = new AgentLoad(loadTest, t, { name: 'agent', namespace: 'shell' });
  const clients = [...loads, quiet, machineClient, agent];
  t.after(() => {
    loadTest.abort();
    for (const client of [...loads, quiet, machineClient]) client.close();
  });
  await Promise.all(clients.map((client) => client.connect()));

  const work = Promise.all([...clients, metadataUpdater, stateUpdater].map((client) => client.run()));
  // `work` is awaited at the end. Until then, a failure must not be an unhandled rejection.
  work.catch(() => {});
  const activeSessions = [...loads, { web, session: quiet.session, clis: [quiet] }];
  const recoveries = [];
  let inFlight = 0;
  for (let kill = 1; kill <= KILLS; kill += 1) {
    // Some kills happen while clients are reconnecting.
    const isEarly = loadTest.random.chance(20);
    if (!isEarly) await Promise.race([work, Promise.all(clis.map((cli) => cli.waitForAck()))]);
    await sleep(loadTest.random.between(0, isEarly ? EARLY_KILL_MS : LATE_KILL_MS));
    inFlight += clis.reduce((sum, cli) => sum + cli.unackedCount, 0);
    const killed = performance.now();
    await hub.killRuntime();
    for (const active of activeSessions) {
      const { lastAckedThinking } = active.clis[0];
      const { body } = await loadTest.retry(() => active.web.get(`/api/sessions/${active.session.id}`));
      checkLiveness(active, body, lastAckedThinking);
    }
    recoveries.push(performance.now() - killed);
    if (loadTest.random.chance(40)) {
      await sleep(loadTest.random.between(0, LATE_KILL_MS));
      await agent.restart();
    }
    assert.deepEqual(loadTest.violations, [], `after kill ${kill} of seed ${SEED}`);
  }
  await Promise.race([work, Promise.all(clis.map((cli) => cli.waitForAck()))]);
  loadTest.isEnding = true;
  await work;
  assert.deepEqual(loadTest.violations, [], `seed ${SEED}`);

  // The hub is killed once more, so that the checks read stored data, not the hub's memory.
  const before = await Promise.all(loads.map(readStoredSession));
  await hub.killRuntime();
  for (const [index, load] of loads.entries()) {
    const stored = await readStoredSession(load);
    assert.deepEqual(stored.history, before[index].history);
    checkMessages(load, stored);
    checkReaders(load, stored);
    checkUpdates(load.metadataUpdaters, stored.session.metadata, stored.session.metadataVersion);
    checkUpdates(load.stateUpdaters, stored.session.agentState, stored.session.agentStateVersion, stored.completed.length);
    checkRequests(load, stored);
    checkLiveness(load, stored);
    await eventually(() => load.callers[0].call(), 'the CLI to register its methods again');
  }
  checkAgent(agent, await readStoredSession(/** @type {any} */ (agent)));
  const { machine } = (await web.get(`/cli/machines/${machineClient.machine.id}`)).body;
  assert.equal(machine.active, true);
  checkUpdates([metadataUpdater], machine.metadata, machine.metadataVersion);
  checkUpdates([stateUpdater], machine.runnerState, machine.runnerStateVersion);
  const { activeAt: _, ...untouched } = await web.readSession(idle.id);
  assert.deepEqual(untouched, (({ activeAt, ...rest }) => rest)(idle));

  printReport(t, loadTest, { loads, agent, before, recoveries, inFlight });
});

/** Prints figures of the run. */
function printReport(t, loadTest, { loads, agent, before, recoveries, inFlight }) {
  const sorted = recoveries.map(Math.round).sort((a, b) => a - b);
  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
  const listeners = loads.flatMap((load) => load.listeners);
  const figures = {
    kills: recoveries.length,
    'messages stored': sum(before.map(({ history }) => history.length)),
    'messages in flight at the kills': inFlight,
    'versioned updates': sum(before.map(({ session }) => session.metadata.marks.length + session.agentState.marks.length)),
    'commands executed by the agent': agent.executedCommands.length,
    'kills of the agent': agent.kills,
    'permission requests answered': sum(before.map(({ completed }) => completed.length)),
    'event channels resumed without a gap': sum(listeners.map(({ resumptions }) => resumptions.ok)),
    'event channels resumed with a gap': sum(listeners.map(({ resumptions }) => resumptions.gap)),
    ...loadTest.counts,
    'ms from a kill until the hub answers, median and maximum': `${sorted[sorted.length >> 1]}, ${sorted.at(-1)}`,
  };
  for (const [name, figure] of Object.entries(figures)) t.diagnostic(`${name}: ${figure}`);
}
