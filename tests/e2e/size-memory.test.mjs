/** What the largest messages and values cost the wasm memory, which never shrinks. A file of its own: nothing else may use it. */

import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';
import { deferred, eventually, withTimeout } from './lib/await.mjs';
import { connectCli, liveSession } from './lib/cli.mjs';
import { FAULTY_WORKER, startHub } from './lib/hub.mjs';

const MIB = 1024 * 1024;
const LARGEST = 30 * MIB;

test('the largest message is in wasm memory twice, and the next ones take no more', async (t) => {
  const hub = await startHub({ wrappers: FAULTY_WORKER });
  t.after(() => hub.stop());
  const { session, cli } = await liveSession(t, hub, { tag: 'memory', way: 'header' });
  const second = await connectCli(t, hub, { way: 'header' });
  const before = await hub.wasmMemory();
  const say = (from, message) => from.emitWithAck('message', { sid: session.id, message }, 60_000);
  const texts = ['x'.repeat(LARGEST - 2), `ü${'x'.repeat(LARGEST - 4)}`];
  const wrapped = JSON.stringify({ text: `"${'x'.repeat(LARGEST - 2000)}"` });
  const grown = [];
  for (const message of [...texts, wrapped, ...texts]) {
    const { ok, seq } = await say(cli, message);
    assert.equal(ok, true);
    const { status } = await hub.web().get(`/api/sessions/${session.id}/messages?afterSeq=${seq - 1}`);
    assert.equal(status, 200);
    grown.push((await hub.wasmMemory()) - before);
  }
  // Of two that come at once one may have to come again.
  const acks = await Promise.all([say(cli, texts[0]), say(second, texts[0])]);
  assert.ok(acks.some(({ ok }) => ok) && acks.every(({ ok, code }) => ok || code === 'overloaded'), JSON.stringify(acks));
  grown.push((await hub.wasmMemory()) - before);
  const shown = grown.map((bytes) => (bytes / MIB).toFixed(1)).join(' ');
  t.diagnostic(`the wasm memory has grown by ${shown} MiB`);
  assert.ok(grown.every((bytes) => bytes < 2.5 * LARGEST), shown);
  assert.ok(grown.at(-1) - grown[0] < LARGEST / 2, shown);
});

test('the largest states, one after the other, take no more than messages do', async (t) => {
  const hub = await startHub({ wrappers: FAULTY_WORKER });
  t.after(() => hub.stop());
  const before = await hub.wasmMemory();
  const grown = [];
  const filling = 'x'.repeat(LARGEST - '{"filling":""}'.length);
  for (const tag of ['one', 'two', 'three']) {
    const { session, cli } = await liveSession(t, hub, { tag, way: 'header' });
    const second = await connectCli(t, hub, { way: 'header', auth: { sessionId: session.id } });
    const update = (from, expectedVersion, agentState) =>
      from.emitWithAck('update-state', { sid: session.id, expectedVersion, agentState }, 60_000);
    assert.equal((await update(cli, 1, { filling })).version, 2);
    const heard = await second.nextUpdate('update-session');
    assert.equal(heard.agentState.value.filling.length, filling.length);
    assert.equal((await update(second, 1, {})).agentState.filling.length, filling.length);
    const { body } = await hub.web().get(`/api/sessions/${session.id}`);
    assert.equal(body.session.agentState.filling.length, filling.length);
    grown.push((await hub.wasmMemory()) - before);
  }
  const shown = grown.map((bytes) => (bytes / MIB).toFixed(1)).join(' ');
  t.diagnostic(`the wasm memory has grown by ${shown} MiB`);
  assert.ok(grown.every((bytes) => bytes < 2.5 * LARGEST), shown);
  assert.ok(grown.at(-1) - grown[0] < LARGEST / 2, shown);

  // A session may have two of them: its answer leaves in parts.
  const { session, cli } = await liveSession(t, hub, { tag: 'both', way: 'header' });
  const metadata = { path: '/code', host: 'box', filling: filling.slice(0, -100) };
  await cli.emitWithAck('update-metadata', { sid: session.id, expectedVersion: 1, metadata }, 60_000);
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: { filling } }, 60_000);
  const { body } = await hub.web().get(`/api/sessions/${session.id}`);
  assert.deepEqual([body.session.metadata, body.session.agentState], [metadata, { filling }]);
  const both = (await hub.wasmMemory()) - before;
  t.diagnostic(`and by ${(both / MIB).toFixed(1)} MiB`);
  assert.ok(both < 3 * LARGEST, `${both}`);
});

test('what is refused takes no more than what is kept, however it is made', async (t) => {
  const hub = await startHub({ wrappers: FAULTY_WORKER });
  t.after(() => hub.stop());
  const { session, cli } = await liveSession(t, hub, { tag: 'hostile', way: 'header' });
  const before = await hub.wasmMemory();
  const nested = (bytes) => '['.repeat(bytes / 2) + ']'.repeat(bytes / 2);
  // In JSON it may stand as it is; as Rust prints it, it takes six characters.
  const escaped = (bytes) => '\x7f'.repeat(bytes);
  const packets = {
    'lists in lists before a field of the wrong type': `["session-alive",{"x":${nested(LARGEST)},"sid":5}]`,
    'a text in place of a number': `["session-alive",{"sid":"${session.id}","time":"${escaped(LARGEST)}"}]`,
    'a text in place of a word': `["session-alive",{"sid":"${session.id}","time":1,"mode":"${escaped(LARGEST)}"}]`,
    'millions of arguments': `["ping",${'1,'.repeat(LARGEST / 2)}1]`,
  };
  for (const [what, packet] of Object.entries(packets)) {
    cli.socket.io.engine.write(`2/cli,900${packet}`);
    await cli.frames.next((frame) => /^(3\/cli,900|2\/cli,\["error")/.test(frame), `an answer to ${what}`, 60_000);
    const grown = (await hub.wasmMemory()) - before;
    t.diagnostic(`${what}: the wasm memory has grown by ${(grown / MIB).toFixed(1)} MiB`);
    assert.ok(grown < 2.5 * LARGEST, what);
  }
  const bodies = {
    'lists in lists before a field of the wrong type': `{"x":${nested(7 * MIB)},"text":5}`,
    'a text in place of a list': `{"text":"a","attachments":"${escaped(7 * MIB)}"}`,
  };
  for (const [what, body] of Object.entries(bodies)) {
    const { status, body: answer } = await hub.web().request('POST', `/api/sessions/${session.id}/messages`, { raw: body });
    assert.deepEqual([status, answer.code], [400, 'invalid_field'], what);
    const grown = (await hub.wasmMemory()) - before;
    assert.ok(grown < 2.5 * LARGEST, `${what}: ${grown}`);
  }
});

/**
 * Asks for a place and reads no more of its answer than the head, until it hangs up.
 * @returns {Promise<http.IncomingMessage>} which stands still
 */
function unread(hub, path) {
  const { promise, resolve, reject } = deferred();
  const headers = { authorization: `Bearer ${hub.token()}` };
  const request = http.request(`${hub.url}${path}`, { headers, agent: false });
  request.once('error', reject);
  request.once('response', (response) => {
    response.on('error', () => {});
    resolve(response.pause());
  });
  request.end();
  return withTimeout(promise, `the head of ${path}`, 60_000);
}

test('large answers that nobody reads are few, and the others are told so until they are gone', async (t) => {
  const hub = await startHub({ wrappers: FAULTY_WORKER });
  t.after(() => hub.stop());
  const { session, cli } = await liveSession(t, hub, { tag: 'unread', way: 'header' });
  const filling = 'x'.repeat(LARGEST - 100);
  const metadata = { path: '/code', host: 'box', filling };
  await cli.emitWithAck('update-metadata', { sid: session.id, expectedVersion: 1, metadata }, 60_000);
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: { filling } }, 60_000);
  assert.equal((await cli.emitWithAck('message', { sid: session.id, message: filling }, 60_000)).ok, true);
  for (const path of [`/api/sessions/${session.id}`, `/api/sessions/${session.id}/messages?limit=1`]) {
    assert.equal((await hub.web().get(path)).status, 200);
    const before = await hub.wasmMemory();
    const answers = await Promise.all(Array.from({ length: 12 }, () => unread(hub, path)));
    const grown = (await hub.wasmMemory()) - before;
    t.diagnostic(`of ${path} the wasm memory has grown by ${(grown / MIB).toFixed(1)} MiB`);
    assert.ok(grown < 2.5 * LARGEST, `${grown}`);
    assert.equal(answers.filter(({ statusCode }) => statusCode === 200).length, 1);
    const refused = answers.filter(({ statusCode, headers }) => statusCode === 503 && headers['retry-after'] === '1');
    assert.equal(refused.length, 11);
    const { status, body } = await hub.web().get(path);
    assert.deepEqual([status, body.code], [503, 'overloaded']);
    // Small ones need no room.
    assert.equal((await hub.web().get('/api/sessions')).status, 200);
    for (const answer of answers) answer.destroy();
    await eventually(async () => (await hub.web().get(path)).status === 200, 'room for the next');
  }
});
