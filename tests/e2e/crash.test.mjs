/**
 * The runtime is killed at random moments under load and started again. Clients come back by themselves, and nothing that
 * was acknowledged is lost. Three kills here; `npm run kills` makes more.
 */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from './lib/await.mjs';
import { checkAgent, checkLife, checkMessages, checkReaders, checkRequests, checkUpdates, record } from './lib/crash/checks.mjs';
import { Crowd } from './lib/crash/crowd.mjs';
import { SteadyAgent } from './lib/crash/steady-agent.mjs';
import { SteadyCli } from './lib/crash/steady-cli.mjs';
import { SteadyMachine } from './lib/crash/steady-machine.mjs';
import { Storm } from './lib/crash/storm.mjs';
import { Updater } from './lib/crash/updater.mjs';
import { startHub } from './lib/hub.mjs';

const KILLS = Number(process.env.CRASH_KILLS ?? 3);
const SEED = process.env.CRASH_SEED ?? String(Date.now());
/** The longest time to the next kill: from when the runtime is there again, and from when everybody works again. */
const EARLY_MS = 200;
const LATE_MS = 1_000;

const hub = await startHub();
after(() => hub.stop());

/** A session whose CLI says nothing but that it is alive, one that has no CLI, and a machine. */
async function bystanders(storm, namespace) {
  const web = hub.web(namespace);
  const session = await web.session({ tag: 'quiet' });
  const idle = await web.session({ tag: 'idle' });
  const machine = await web.machine({ id: 'm-storm', runnerState: {} });
  const quiet = new SteadyCli(storm, { name: 'quiet', namespace, session, way: 'query', talks: false });
  const steady = new SteadyMachine(storm, { name: 'machine', namespace, machine });
  const subject = { machineId: machine.id };
  const [metadata, state] = [
    { event: 'machine-update-metadata', key: 'metadata', version: machine.metadataVersion, value: machine.metadata },
    { event: 'machine-update-state', key: 'runnerState', version: machine.runnerStateVersion, value: machine.runnerState },
  ].map((options) => new Updater(steady, { subject, ...options }));
  return { web, idle, quiet, steady, metadata, state };
}

test(`${KILLS} kills under load lose nothing`, async (t) => {
  t.diagnostic(`seed ${SEED}`);
  const storm = new Storm(hub, SEED);
  const crowd = async (namespace, tag, options) =>
    new Crowd(storm, namespace, await hub.web(namespace).session({ tag }), options);
  const crowds = [
    await crowd('storm', 'busy', { ways: ['header', 'connect'], channels: ['sse', 'socket'], writers: 2 }),
    await crowd('storm', 'bridged', { ways: ['connect'], channels: ['sse'] }),
    await crowd('elsewhere', 'direct', { ways: ['query'], channels: ['socket'] }),
  ];
  const { web, idle, quiet, steady, metadata, state } = await bystanders(storm, 'storm');
  const clis = crowds.flatMap((one) => one.clis);
  const agent = new SteadyAgent(storm, t, { name: 'agent', namespace: 'shell' });
  const everybody = [...crowds, quiet, steady, agent];
  t.after(() => {
    storm.end();
    for (const one of [...crowds, quiet, steady]) one.close();
  });
  await Promise.all(everybody.map((one) => one.connect()));

  const load = Promise.all([...everybody, metadata, state].map((one) => one.run()));
  // It is awaited at the end; until then a failure is not to end this process.
  load.catch(() => {});
  const lives = [...crowds, { web, session: quiet.session, clis: [quiet] }];
  const recoveries = [];
  let inFlight = 0;
  for (let kill = 1; kill <= KILLS; kill += 1) {
    // Now and then while everybody is still coming back, else in the middle of the work.
    const early = storm.random.chance(20);
    if (!early) await Promise.race([load, Promise.all(clis.map((cli) => cli.acknowledged()))]);
    await sleep(storm.random.between(0, early ? EARLY_MS : LATE_MS));
    inFlight += clis.reduce((sum, cli) => sum + cli.inFlight, 0);
    const killed = performance.now();
    await hub.kill();
    for (const life of lives) {
      const { settled } = life.clis[0];
      const { body } = await storm.persist(() => life.web.get(`/api/sessions/${life.session.id}`));
      checkLife(life, body, settled);
    }
    recoveries.push(performance.now() - killed);
    if (storm.random.chance(40)) {
      await sleep(storm.random.between(0, LATE_MS));
      await agent.restart();
    }
    assert.deepEqual(storm.faults, [], `after kill ${kill} of seed ${SEED}`);
  }
  await Promise.race([load, Promise.all(clis.map((cli) => cli.acknowledged()))]);
  storm.calm = true;
  await load;
  assert.deepEqual(storm.faults, [], `seed ${SEED}`);

  // What is there is what was stored, not what the hub remembers.
  const before = await Promise.all(crowds.map(record));
  await hub.kill();
  for (const [at, one] of crowds.entries()) {
    const found = await record(one);
    assert.deepEqual(found.history, before[at].history);
    checkMessages(one, found);
    checkReaders(one, found);
    checkUpdates(one.metadata, found.session.metadata, found.session.metadataVersion);
    checkUpdates(one.state, found.session.agentState, found.session.agentStateVersion, found.completed.length);
    checkRequests(one, found);
    checkLife(one, found);
    await eventually(() => one.callers[0].ask(), 'the CLI to serve its methods again');
  }
  checkAgent(agent, await record(agent));
  const { machine } = (await web.get(`/cli/machines/${steady.machine.id}`)).body;
  assert.equal(machine.active, true);
  checkUpdates([metadata], machine.metadata, machine.metadataVersion);
  checkUpdates([state], machine.runnerState, machine.runnerStateVersion);
  const { activeAt: _, ...untouched } = (await web.get(`/api/sessions/${idle.id}`)).body.session;
  assert.deepEqual(untouched, (({ activeAt, ...rest }) => rest)(idle));

  report(t, storm, { crowds, agent, before, recoveries, inFlight });
});

/** Figures of a run. */
function report(t, storm, { crowds, agent, before, recoveries, inFlight }) {
  const sorted = recoveries.map(Math.round).sort((a, b) => a - b);
  const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);
  const listeners = crowds.flatMap((one) => one.listeners);
  const figures = {
    kills: recoveries.length,
    'messages kept': sum(before.map(({ history }) => history.length)),
    'messages in flight at the kills': inFlight,
    'versioned updates': sum(before.map(({ session }) => session.metadata.marks.length + session.agentState.marks.length)),
    'commands run by the agent': agent.ran.length,
    'kills of the agent': agent.kills,
    'permission requests answered': sum(before.map(({ completed }) => completed.length)),
    'event channels resumed': sum(listeners.map(({ resumed }) => resumed.ok)),
    'event channels told a gap': sum(listeners.map(({ resumed }) => resumed.gap)),
    ...storm.counts,
    'ms from a kill until the hub answers, median and most': `${sorted[sorted.length >> 1]}, ${sorted.at(-1)}`,
  };
  for (const [name, figure] of Object.entries(figures)) t.diagnostic(`${name}: ${figure}`);
}
