/**
 * The growth of the wasm memory and of the process, with the largest messages and values, and with several namespaces at once. Wasm
 * memory never shrinks. Nothing else may use these hubs.
 */

import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';
import { deferred, eventually, withTimeout } from '../../scripts/lib/await.mjs';
import { connectCli, liveSession } from '../../scripts/product/clients/cli.mjs';
import { FAULTY_WORKER, startHub } from './lib/hub.mjs';

const MIB = 1024 * 1024;
const LARGEST_VALUE_BYTES = 30 * MIB;

/** The memory budget (`MAX_BUFFER_BYTES`), which all namespaces share. Buffers are in wasm memory. */
const MAX_BUFFER_BYTES = 64 * MIB;

/**
 * The largest heap of an isolate. Above this size, V8 ends the process. The heap contains garbage, and copies of frames and batches
 * between JavaScript and wasm. The heap, the buffers, and 16 MiB for code and the idle wasm memory are the memory of an isolate.
 */
const MAX_HEAP_BYTES = 48 * MIB;
process.env.MINIFLARE_WORKERD_V8_FLAGS = `--max-old-space-size=${MAX_HEAP_BYTES / MIB}`;

/** The size of queued changes above which they are sealed as a batch (`MAX_BATCH_BYTES`). */
const MAX_BATCH_BYTES = 4_000_000;

test('namespaces that fill the memory of an isolate stay within its limit, and another namespace is served all the time', async (t) => {
  const hub = await startHub(t, { wrappers: FAULTY_WORKER });
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
  const tenants = [];
  for (const namespace of names) tenants.push(await liveSession(t, hub, { namespace, tag: 'flood', tokenIn: 'header' }));
  const quiet = await liveSession(t, hub, { namespace: 'quiet', tag: 'quiet', tokenIn: 'header' });
  const send = ({ session, cli }, message) => cli.emitWithAck('message', { sid: session.id, message }, 60_000);
  await Promise.all([...tenants, quiet].map((tenant) => send(tenant, 'warm-up')));
  const before = { wasm: await hub.readWasmMemory(), process: hub.readMemory().now };
  await hub.setFaults(names.map(() => ({ on: 'writes', kind: 'slow', ms: 5_000 })));
  // 240 MiB in total, while the database is slow.
  const message = 'x'.repeat(MIB);
  let isFlooding = true;
  const flood = Promise.all(tenants.flatMap((tenant) => Array.from({ length: 30 }, () => send(tenant, message)))).finally(() => {
    isFlooding = false;
  });
  const delays = [];
  while (isFlooding) {
    const startedAt = performance.now();
    const ack = await send(quiet, 'x'.repeat(MIB / 2));
    assert.equal(ack.ok, true, JSON.stringify(ack));
    const { status } = await hub.web('quiet').get(`/api/sessions/${quiet.session.id}`);
    assert.equal(status, 200);
    delays.push(performance.now() - startedAt);
  }
  const acks = await flood;
  const stored = acks.filter(({ ok }) => ok).length;
  const overloaded = acks.filter(({ code }) => code === 'overloaded').length;
  assert.equal(stored + overloaded, acks.length);
  assert.ok(stored >= names.length, `${stored}`);
  t.diagnostic(`of ${acks.length} messages ${stored} were stored and ${overloaded} refused`);
  t.diagnostic(`${delays.length} messages of the quiet namespace took up to ${(Math.max(...delays) / 1000).toFixed(1)} s`);
  const wasm = (await hub.readWasmMemory()) - before.wasm;
  const growth = hub.readMemory().peak - before.process;
  t.diagnostic(`the wasm memory has grown by ${(wasm / MIB).toFixed(1)} MiB, the process by at most ${(growth / MIB).toFixed(1)} MiB`);
  assert.ok(wasm <= MAX_BUFFER_BYTES, `${wasm}`);
  // D1 has its own heap in the process. For each namespace, the runtime also holds a received frame and two batches outside of
  // the heaps: the slow batch, and its repetition after 2 s without a result (`DB_SILENCE_MS`).
  assert.ok(growth <= MAX_BUFFER_BYTES + 2 * MAX_HEAP_BYTES + (names.length + 1) * (MIB + 2 * MAX_BATCH_BYTES), `${growth}`);
});

test('an object that hibernates and wakes reuses the memory of its last instance', async (t) => {
  const hub = await startHub(t, { wrappers: FAULTY_WORKER });
  const namespaces = Array.from({ length: 10 }, (_, index) => `woken-${index}`);
  const paths = new Map();
  for (const namespace of namespaces) {
    const open = (tag) => hub.web(namespace).openSession({ tag, metadata: { padding: 'x'.repeat(500_000) } });
    paths.set(
      namespace,
      [await open('a'), await open('b'), await open('c')].map(({ id }) => `/api/sessions/${id}`),
    );
  }
  const before = await hub.readWasmMemory();
  for (let round = 0; round < 5; round += 1) {
    for (const namespace of namespaces) {
      // On a busy computer the runtime may have hibernated the object itself.
      await hub.hibernate(namespace);
      for (const path of paths.get(namespace)) assert.equal((await hub.web(namespace).get(path)).status, 200);
    }
  }
  const growth = (await hub.readWasmMemory()) - before;
  t.diagnostic(`the wasm memory of ${(before / MIB).toFixed(1)} MiB has grown by ${(growth / MIB).toFixed(1)} MiB`);
  assert.ok(growth <= 4 * MIB, `${growth}`);
});

test('the largest message takes memory of at most 2.5 times its size, and later messages reuse this memory', async (t) => {
  const hub = await startHub(t, { wrappers: FAULTY_WORKER });
  const { session, cli } = await liveSession(t, hub, { tag: 'memory', tokenIn: 'header' });
  const second = await connectCli(t, hub, { tokenIn: 'header' });
  const before = await hub.readWasmMemory();
  const send = (sender, message) => sender.emitWithAck('message', { sid: session.id, message }, 60_000);
  const texts = ['x'.repeat(LARGEST_VALUE_BYTES - 2), `ü${'x'.repeat(LARGEST_VALUE_BYTES - 4)}`];
  const wrapped = JSON.stringify({ text: `"${'x'.repeat(LARGEST_VALUE_BYTES - 2000)}"` });
  const growth = [];
  for (const message of [...texts, wrapped, ...texts]) {
    const { ok, seq } = await send(cli, message);
    assert.equal(ok, true);
    const { status } = await hub.web().get(`/api/sessions/${session.id}/messages?afterSeq=${seq - 1}`);
    assert.equal(status, 200);
    growth.push((await hub.readWasmMemory()) - before);
  }
  // There is memory for one of two messages. The other message waits until the slow database has written the first message.
  await hub.setFaults([{ on: 'writes', kind: 'slow', ms: 3_000 }]);
  const acks = await Promise.all([send(cli, texts[0]), send(second, texts[0])]);
  assert.ok(
    acks.every(({ ok }) => ok),
    JSON.stringify(acks),
  );
  growth.push((await hub.readWasmMemory()) - before);
  const growthInMib = growth.map((bytes) => (bytes / MIB).toFixed(1)).join(' ');
  t.diagnostic(`the wasm memory has grown by ${growthInMib} MiB`);
  assert.ok(
    growth.every((bytes) => bytes < 2.5 * LARGEST_VALUE_BYTES),
    growthInMib,
  );
  assert.ok(growth.at(-1) - growth[0] < LARGEST_VALUE_BYTES / 2, growthInMib);
});

test('the largest agent states, sent one after another, take at most as much memory as messages', async (t) => {
  const hub = await startHub(t, { wrappers: FAULTY_WORKER });
  const before = await hub.readWasmMemory();
  const growth = [];
  const padding = 'x'.repeat(LARGEST_VALUE_BYTES - '{"padding":""}'.length);
  for (const tag of ['one', 'two', 'three']) {
    const { session, cli } = await liveSession(t, hub, { tag, tokenIn: 'header' });
    const second = await connectCli(t, hub, { tokenIn: 'header', auth: { sessionId: session.id } });
    const update = (sender, expectedVersion, agentState) =>
      sender.emitWithAck('update-state', { sid: session.id, expectedVersion, agentState }, 60_000);
    assert.equal((await update(cli, 1, { padding })).version, 2);
    const received = await second.nextUpdate('update-session');
    assert.equal(received.agentState.value.padding.length, padding.length);
    assert.equal((await update(second, 1, {})).agentState.padding.length, padding.length);
    const { body } = await hub.web().get(`/api/sessions/${session.id}`);
    assert.equal(body.session.agentState.padding.length, padding.length);
    growth.push((await hub.readWasmMemory()) - before);
  }
  const growthInMib = growth.map((bytes) => (bytes / MIB).toFixed(1)).join(' ');
  t.diagnostic(`the wasm memory has grown by ${growthInMib} MiB`);
  assert.ok(
    growth.every((bytes) => bytes < 2.5 * LARGEST_VALUE_BYTES),
    growthInMib,
  );
  assert.ok(growth.at(-1) - growth[0] < LARGEST_VALUE_BYTES / 2, growthInMib);

  // A session may have two of the largest values; its response is sent in parts.
  const { session, cli } = await liveSession(t, hub, { tag: 'both', tokenIn: 'header' });
  const metadata = { path: '/code', host: 'box', padding: padding.slice(0, -100) };
  await cli.emitWithAck('update-metadata', { sid: session.id, expectedVersion: 1, metadata }, 60_000);
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: { padding } }, 60_000);
  const { body } = await hub.web().get(`/api/sessions/${session.id}`);
  assert.deepEqual([body.session.metadata, body.session.agentState], [metadata, { padding }]);
  const growthWithBoth = (await hub.readWasmMemory()) - before;
  t.diagnostic(`with both values in one response by ${(growthWithBoth / MIB).toFixed(1)} MiB`);
  assert.ok(growthWithBoth < 3 * LARGEST_VALUE_BYTES, `${growthWithBoth}`);
});

test('invalid input takes at most as much memory as valid input', async (t) => {
  const hub = await startHub(t, { wrappers: FAULTY_WORKER });
  const { session, cli } = await liveSession(t, hub, { tag: 'hostile', tokenIn: 'header' });
  const before = await hub.readWasmMemory();
  const nestedArrays = (bytes) => '['.repeat(bytes / 2) + ']'.repeat(bytes / 2);
  // JSON allows this character unescaped. In Rust's Debug output, the character becomes six characters.
  const textToEscape = (bytes) => '\x7f'.repeat(bytes);
  const packets = {
    'nested arrays before a field of the wrong type': `["session-alive",{"x":${nestedArrays(LARGEST_VALUE_BYTES)},"sid":5}]`,
    'a string in place of a number': `["session-alive",{"sid":"${session.id}","time":"${textToEscape(LARGEST_VALUE_BYTES)}"}]`,
    'a long string in place of a mode': `["session-alive",{"sid":"${session.id}","time":1,"mode":"${textToEscape(LARGEST_VALUE_BYTES)}"}]`,
    'millions of arguments': `["ping",${'1,'.repeat(LARGEST_VALUE_BYTES / 2)}1]`,
  };
  for (const [what, packet] of Object.entries(packets)) {
    cli.socket.io.engine.write(`2/cli,900${packet}`);
    await cli.frames.next((frame) => /^(3\/cli,900|2\/cli,\["error")/.test(frame), `an answer to ${what}`, 60_000);
    const growth = (await hub.readWasmMemory()) - before;
    t.diagnostic(`${what}: the wasm memory has grown by ${(growth / MIB).toFixed(1)} MiB`);
    assert.ok(growth < 2.5 * LARGEST_VALUE_BYTES, what);
  }
  const bodies = {
    'nested arrays before a field of the wrong type': `{"x":${nestedArrays(7 * MIB)},"text":5}`,
    'a string in place of an array': `{"text":"a","attachments":"${textToEscape(7 * MIB)}"}`,
  };
  for (const [what, body] of Object.entries(bodies)) {
    const { status, body: answer } = await hub.web().request('POST', `/api/sessions/${session.id}/messages`, { raw: body });
    assert.deepEqual([status, answer.code], [400, 'invalid_field'], what);
    const growth = (await hub.readWasmMemory()) - before;
    assert.ok(growth < 2.5 * LARGEST_VALUE_BYTES, `${what}: ${growth}`);
  }
});

test('large pages of messages that many clients request at once are read one after another', async (t) => {
  const hub = await startHub(t, { wrappers: FAULTY_WORKER });
  const { session, cli } = await liveSession(t, hub, { tag: 'pages', tokenIn: 'header' });
  // The character has three bytes in UTF-8, and two bytes in JavaScript's memory.
  const message = '\u6587'.repeat(345_000);
  for (let n = 0; n < 8; n += 1) assert.equal((await cli.emitWithAck('message', { sid: session.id, message }, 60_000)).ok, true);
  const path = `/api/sessions/${session.id}/messages?limit=20`;
  const { text: expected } = await hub.web().get(path);
  assert.ok(Buffer.byteLength(expected) > 8_000_000, `${Buffer.byteLength(expected)}`);
  const before = { wasm: await hub.readWasmMemory(), process: hub.readMemory().now };
  // On a busy computer, a read may wait too long and get 503 `overloaded`. The client then tries again.
  const readPage = async () => {
    const page = await hub.web().get(path);
    return page.status === 503 && page.body.code === 'overloaded' ? undefined : page;
  };
  const pages = await Promise.all(Array.from({ length: 12 }, () => eventually(readPage, 'a page', 60_000)));
  const wasm = (await hub.readWasmMemory()) - before.wasm;
  const growth = hub.readMemory().peak - before.process;
  t.diagnostic(`the wasm memory has grown by ${(wasm / MIB).toFixed(1)} MiB, the process by at most ${(growth / MIB).toFixed(1)} MiB`);
  for (const { status, text } of pages) assert.ok(status === 200 && text === expected, `${status} ${text.slice(0, 200)}`);
  assert.ok(wasm <= MAX_BUFFER_BYTES, `${wasm}`);
});

/**
 * Sends a request and reads only the head of its response.
 * @returns {Promise<http.IncomingMessage>} the paused response
 */
function requestHead(hub, path) {
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

test('only one large response is open at a time; other requests get 503 until it is read or closed', async (t) => {
  const hub = await startHub(t, { wrappers: FAULTY_WORKER });
  const { session, cli } = await liveSession(t, hub, { tag: 'unread', tokenIn: 'header' });
  const padding = 'x'.repeat(LARGEST_VALUE_BYTES - 100);
  const metadata = { path: '/code', host: 'box', padding };
  await cli.emitWithAck('update-metadata', { sid: session.id, expectedVersion: 1, metadata }, 60_000);
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: { padding } }, 60_000);
  assert.equal((await cli.emitWithAck('message', { sid: session.id, message: padding }, 60_000)).ok, true);
  for (const path of [`/api/sessions/${session.id}`, `/api/sessions/${session.id}/messages?limit=1`]) {
    assert.equal((await hub.web().get(path)).status, 200);
    const before = await hub.readWasmMemory();
    const responses = await Promise.all(Array.from({ length: 12 }, () => requestHead(hub, path)));
    const growth = (await hub.readWasmMemory()) - before;
    t.diagnostic(`${path}: the wasm memory has grown by ${(growth / MIB).toFixed(1)} MiB`);
    assert.ok(growth < 2.5 * LARGEST_VALUE_BYTES, `${growth}`);
    assert.equal(responses.filter(({ statusCode }) => statusCode === 200).length, 1);
    const refused = responses.filter(({ statusCode, headers }) => statusCode === 503 && headers['retry-after'] === '1');
    assert.equal(refused.length, 11);
    const { status, body } = await hub.web().get(path);
    assert.deepEqual([status, body.code], [503, 'overloaded']);
    // Small responses are not limited.
    assert.equal((await hub.web().get('/api/machines')).status, 200);
    for (const response of responses) response.destroy();
    await eventually(async () => (await hub.web().get(path)).status === 200, 'the next large response');
  }
});
