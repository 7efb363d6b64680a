/**
 * A full namespace reconnects after a restart of the hub, finds sessions by their tags while memory is full, and outlasts a stall of the
 * database. `npm test` does not run it, because it measures; `npm run reconnect` does.
 */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { HubSocket } from '../../../packages/cli-kit/src/hub-socket.mjs';
import { OutageMonitor } from '../../../packages/cli-kit/src/outage.mjs';
import { Cli } from '../../../scripts/product/clients/cli.mjs';
import { FAULTY_WORKER, startHub } from '../lib/hub.mjs';

const CLI_COUNT = 1_000;
const NEW_COUNT = 120;
/** All CLIs must be served within this time after a restart. */
const LIMIT_MS = 10_000;

const STALL_MS = 90_000;
/** How often a CLI may connect again during a stall: it waits longer for each acknowledgement. */
const MAX_CONNECTS = 3;

const hub = await startHub({ after }, { wrappers: FAULTY_WORKER });

/** Does what a CLI does when it starts: finds its session by its tag, connects, registers a method, and sends a keep-alive. */
async function start(web, tag) {
  const { id } = await web.openSession({ tag });
  const cli = new Cli(hub, { namespace: 'full', auth: { sessionId: id } });
  await cli.connect();
  const acks = [await cli.emitWithAck('rpc-register', { method: `${id}:permission` }), await cli.keepAlive(id)];
  assert.deepEqual(acks, [{ ok: true }, { ok: true }]);
  return cli;
}

async function measureStart(tags) {
  const web = hub.web('full');
  const startedAt = performance.now();
  const clis = await Promise.all(tags.map((tag) => start(web, tag)));
  return { clis, ms: Math.round(performance.now() - startedAt) };
}

test('1,000 CLIs that reconnect at once after a restart are served within 10 s, and new CLIs are served while memory is full', async (t) => {
  const tags = Array.from({ length: CLI_COUNT }, (_, index) => `/code/${index}`);
  const first = await measureStart(tags);
  for (const cli of first.clis) cli.close();
  await hub.restart();
  const again = await measureStart(tags);
  t.after(() => again.clis.forEach((cli) => cli.close()));
  const newTags = Array.from({ length: NEW_COUNT }, (_, index) => `/new/${index}`);
  const added = await measureStart(newTags);
  t.after(() => added.clis.forEach((cli) => cli.close()));
  t.diagnostic(`${CLI_COUNT} new CLIs: ${first.ms} ms, again after a restart: ${again.ms} ms, ${NEW_COUNT} more: ${added.ms} ms`);
  assert.ok(again.ms < LIMIT_MS, `${again.ms} ms`);
  const firstPage = (await hub.web('full').get('/api/sessions')).body;
  const secondPage = (await hub.web('full').get(`/api/sessions?cursor=${firstPage.nextCursor}`)).body;
  const sessions = [...firstPage.sessions, ...secondPage.sessions];
  assert.equal(sessions.filter(({ active }) => active).length, CLI_COUNT + NEW_COUNT);
});

/** Connects a session as the CLIs of this project do, and counts its connects. */
async function connectSession(t, tag) {
  const { id } = await hub.web('stalled').openSession({ tag });
  const log = { info() {}, warn() {}, debug() {} };
  const socket = new HubSocket({
    hub: hub.url,
    token: hub.token('stalled'),
    auth: { sessionId: id, clientType: 'session-scoped' },
    log,
    outage: new OutageMonitor({ hub: hub.url, log }),
  });
  t.after(() => socket.close());
  const session = { connects: 0, send: () => socket.sendUntilAcked('message', { sid: id, message: 'stored', localId: 'one' }) };
  socket.connect();
  await socket.whenConnected();
  socket.on('connect', () => (session.connects += 1));
  return session;
}

test('1,000 CLIs that send during a stall of the database connect again at most three times each, and their messages are stored', async (t) => {
  const sessions = await Promise.all(Array.from({ length: CLI_COUNT }, (_, index) => connectSession(t, `/stalled/${index}`)));
  await hub.stall('silent');
  const sent = Promise.all(sessions.map(({ send }) => send()));
  await sleep(STALL_MS);
  await hub.endStall();
  const endedAt = performance.now();
  const acks = await sent;
  const ms = Math.round(performance.now() - endedAt);
  const counts = sessions.map(({ connects }) => connects);
  const total = counts.reduce((sum, count) => sum + count, 0);
  t.diagnostic(
    `${CLI_COUNT} CLIs connected ${total} times during the stall, each at most ${Math.max(...counts)} times; served after ${ms} ms`,
  );
  assert.ok(acks.every(({ ok, seq }) => ok && seq === 1));
  assert.ok(Math.max(...counts) <= MAX_CONNECTS, `${Math.max(...counts)} connects`);
});
