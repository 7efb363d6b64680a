/** One session, one installation: which session a start continues, and that no message runs on two computers. */

import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { HubSocket } from 'session-gateway-cli-kit/hub-socket';
import { OutageMonitor } from 'session-gateway-cli-kit/outage';
import { HubClient } from 'session-gateway-cli-kit/hub-client';
import { StateStore } from 'session-gateway-cli-kit/state';
import { TOKEN } from '../../../packages/cli-kit/test/support/fake-hub.mjs';
import { tempDir } from '../../../packages/cli-kit/test/support/repository.mjs';
import { setUp } from './support/setup.mjs';

/** The commands that ran in a session. */
const commandsOf = (hub, { id }) => hub.transcript(id).filter((line) => line.startsWith('>'));

/**
 * Creates a session as an earlier version did, whose tag is the path. Its agent has handled all messages.
 * @param {{hub: import('../../../packages/cli-kit/test/support/fake-hub.mjs').FakeHub, home: string, dir: string}} fixture
 * @param {{tag?: string, address?: string}} [options] `address`: the hub's address at that time
 */
async function serveWithEarlierVersion({ hub, home, dir }, { tag = dir, address = hub.url } = {}) {
  const state = new StateStore({ home, hub: address, namespace: 'tests' }).openSession(tag);
  const metadata = { path: dir, flavor: 'alpha', alphaSessionId: state.agentId };
  const session = await new HubClient({ hub: hub.url, token: TOKEN }).openSession({ tag, metadata, agentState: {} });
  Object.assign(hub.sessions.get(session.id).metadata, metadata);
  state.attach(session.id, hub.sessions.get(session.id).messages.length);
  state.release();
  rmSync(path.join(home, 'installation.json'));
  return session.id;
}

test('two computers serve the same path as two sessions', async (t) => {
  const { hub, start } = await setUp(t);
  const laptop = await start({ autoApprove: true });
  const desktop = await start({ autoApprove: true, home: tempDir(t) });
  assert.notEqual(laptop.session.id, desktop.session.id);
  hub.postMessage(desktop.session.id, 'echo one');
  await hub.untilReady(desktop.session.id, 1);
  assert.deepEqual(commandsOf(hub, laptop.session), []);
  await laptop.stop();
  const again = await start();
  assert.equal(again.session.id, laptop.session.id);
});

test('an installation has one id, which is in the tag, the metadata and CONNECT', async (t) => {
  const { hub, dir, home, start } = await setUp(t);
  const app = await start({ machine: true, machineId: 'bench' });
  const { tag, metadata } = hub.sessions.get(app.session.id);
  const { installationId } = new StateStore({ home, hub: 'http://another', namespace: 'another' });
  assert.deepEqual([tag, metadata.installationId], [`${dir}#${installationId}`, installationId]);
  const auths = [...hub.cli.sockets.values()].map(({ handshake }) => handshake.auth.installationId);
  assert.deepEqual(auths, [installationId, installationId]);
});

test('after an upgrade, a start continues the session of the earlier version, also after the hub has moved', async (t) => {
  for (const address of [undefined, 'http://earlier.example']) {
    const fixture = await setUp(t);
    const { hub, start, home } = fixture;
    const id = await serveWithEarlierVersion(fixture, { address });
    hub.postMessage(id, 'echo missed');
    const first = await start({ autoApprove: true });
    assert.equal(first.session.id, id);
    await hub.untilReady(id, 1);
    await first.stop();
    const second = await start({ autoApprove: true });
    hub.postMessage(id, 'echo later');
    await hub.untilReady(id, 2);
    assert.deepEqual([second.session.id, commandsOf(hub, second.session)], [id, ['> echo missed', '> echo later']]);
    assert.equal(readdirSync(path.join(home, 'sessions')).filter((name) => name.endsWith('.json')).length, 1);
  }
});

test('after an upgrade, a start with --new makes a new session, which later starts continue', async (t) => {
  const fixture = await setUp(t);
  const id = await serveWithEarlierVersion(fixture);
  const isNew = await fixture.start({ isNew: true });
  assert.notEqual(isNew.session.id, id);
  await isNew.stop();
  const later = await fixture.start();
  assert.equal(later.session.id, isNew.session.id);
});

test('after an upgrade, a start continues the session that --new of the earlier version made', async (t) => {
  const fixture = await setUp(t);
  const { hub, home, dir, start } = fixture;
  await serveWithEarlierVersion(fixture);
  const tag = new StateStore({ home, hub: hub.url, namespace: 'tests' }).resolveTag(dir, { isNew: true });
  const id = await serveWithEarlierVersion(fixture, { tag });
  const { session } = await start();
  assert.equal(session.id, id);
});

test('messages that another computer has handled since are never run: an earlier session stays with its last computer', async (t) => {
  const laptop = await setUp(t);
  const desktop = { ...laptop, home: tempDir(t) };
  const { hub, start } = laptop;
  const id = await serveWithEarlierVersion(laptop);
  hub.postMessage(id, 'echo m1');
  assert.equal(await serveWithEarlierVersion(desktop), id);
  const onLaptop = await start({ autoApprove: true });
  assert.notEqual(onLaptop.session.id, id);
  const onDesktop = await start({ autoApprove: true, home: desktop.home });
  assert.equal(onDesktop.session.id, id);
  hub.postMessage(id, 'echo m2');
  await hub.untilReady(id, 1);
  assert.deepEqual([commandsOf(hub, onDesktop.session), commandsOf(hub, onLaptop.session)], [['> echo m2'], []]);
  const { alphaSessionId: resume } = hub.sessions.get(id).metadata;
  await onLaptop.stop();
  const resumed = {
    sessionId: id,
    resume: new StateStore({ ...laptop, hub: hub.url, namespace: 'tests' }).findSessions(laptop.dir)[0].agentId,
  };
  await assert.rejects(start({ autoApprove: true, ...resumed }), /Another computer has continued session/);
  await assert.rejects(start({ autoApprove: true, sessionId: id, resume }), /This machine has no state of session/);
});

test('a session that the hub no longer has is not continued', async (t) => {
  const fixture = await setUp(t);
  const id = await serveWithEarlierVersion(fixture);
  fixture.hub.sessions.delete(id);
  const { session } = await fixture.start();
  assert.notEqual(session.id, id);
});

test('another runner of the same installation resumes a session, also after the hub has moved', async (t) => {
  const { hub, start } = await setUp(t);
  const first = await start({ machineId: 'one' });
  await hub.waitUntil(() => hub.sessions.get(first.session.id).metadata.lifecycleState === 'initializing', 'the metadata');
  await first.stop();
  const { id } = first.session;
  const { alphaSessionId: resume } = hub.sessions.get(id).metadata;
  const second = await start({ machineId: 'two', sessionId: id, resume });
  await second.stop();
  const moved = await start({ machineId: 'two', sessionId: id, resume, hub: `${hub.url}/moved/..` });
  assert.equal(moved.session.id, id);
});

test('while another computer serves the session, a computer says so once, handles no message, and takes over when the other has ended', async (t) => {
  const { hub, log, start } = await setUp(t);
  const first = await start();
  const { id } = first.session;
  await first.stop();
  const outage = new OutageMonitor({ hub: hub.url, log });
  const other = new HubSocket({
    hub: hub.url,
    token: TOKEN,
    log,
    outage,
    auth: { sessionId: id, installationId: 'other', clientType: 'test' },
  });
  t.after(() => other.close());
  other.connect();
  await other.whenConnected();
  await other.ping();
  hub.postMessage(id, 'echo hello');
  const starting = start({ autoApprove: true });
  await hub.waitUntil(() => hub.refusedSockets >= 3, 'three attempts');
  assert.deepEqual(hub.transcript(id), []);
  assert.deepEqual(hub.registeredMethods(id), []);
  const expected = `Another computer serves the session ${id}. Stop it there, or start here with --new. This process waits for its end.`;
  assert.deepEqual(log.warnings, [expected]);
  other.close();
  await starting;
  await hub.untilReady(id, 1);
  assert.deepEqual(hub.transcript(id), ['> echo hello', 'hello\n', 'Exit code 0.', '(ready)']);
  assert.ok(log.infos.includes('The other computer no longer serves the session. This computer serves it now.'));
  assert.deepEqual(log.warnings, [expected]);
});
