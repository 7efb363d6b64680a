/** Sessions and machines over REST and from the CLI: made once, listed, renamed, updated by version, deleted. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { connectCli, liveSession } from './lib/cli.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub();
after(() => hub.stop());

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** JSON that a hub which parsed and wrote it again would change: large numbers, number forms, key order, escapes. */
const OPAQUE =
  '{"zeta":9007199254740993,"alpha":1.0,"tiny":1e-400,"huge":123456789012345678901234567890,"nested":{"b":[],"a":null},"text":"\\u00fc \\/"}';

/** An object that the official client sends with exactly this text in it. */
const withOpaque = (fields) => ({ ...fields, opaque: JSON.rawJSON('9007199254740993'), form: JSON.rawJSON('1.0') });
const OPAQUE_TAIL = '"opaque":9007199254740993,"form":1.0}';

async function get(web, id) {
  const { status, body, text } = await web.get(`/api/sessions/${id}`);
  assert.equal(status, 200, text);
  return body.session;
}

async function listed(web, query = '') {
  return (await web.get(`/api/sessions${query}`)).body.sessions;
}

function assertRefused(answer, status, code, field) {
  assert.deepEqual([answer.status, answer.body?.code], [status, code], answer.text);
  assert.equal(typeof answer.body.error, 'string');
  if (field !== undefined) assert.match(answer.body.error, new RegExp(`\`${field}\``));
}

describe('a session of a tag', () => {
  test('is new at first and the same ever after', async () => {
    const web = hub.web('tags');
    const before = Date.now();
    const metadata = { path: '/code/a', host: 'h', flavor: 'beta', future: { kept: true } };
    const first = await web.openSession({ tag: '/code/a', metadata, agentState: { requests: {} }, model: 'model_fast' });
    assert.match(first.id, UUID_V7);
    const { createdAt, ...rest } = first;
    assert.ok(createdAt >= before && createdAt <= Date.now());
    assert.deepEqual(
      [rest.tag, rest.namespace, rest.seq, rest.active, rest.thinking, rest.metadataVersion, rest.agentStateVersion],
      ['/code/a', 'tags', 0, false, false, 1, 1],
    );
    assert.deepEqual([rest.metadata, rest.agentState], [metadata, { requests: {} }]);

    const again = await web.openSession({ tag: '/code/a', metadata: { path: '/elsewhere' } });
    assert.deepEqual(again, first);
    assert.deepEqual((await web.get(`/cli/sessions/${first.id}`)).body, { session: first });
    assert.deepEqual((await web.get(`/api/sessions/${first.id}`)).body, { session: first });
    assert.notEqual((await web.openSession({ tag: '/code/b' })).id, first.id);
  });

  test('is one for ten clients that ask for it at once', async () => {
    const web = hub.web('race');
    const feed = await web.sse({ all: 'true' });
    await feed.waitForGreeting();
    const sessions = await Promise.all(Array.from({ length: 10 }, () => web.openSession({ tag: 'the same' })));
    assert.equal(new Set(sessions.map(({ id }) => id)).size, 1);
    assert.equal((await listed(web)).length, 1);

    const other = await web.openSession({ tag: 'another' });
    await feed.nextEvent('session-added', other.id);
    const added = feed.all.filter(({ type }) => type === 'session-added').map(({ sessionId }) => sessionId);
    assert.deepEqual(added, [sessions[0].id, other.id], 'each is told of once');
    feed.close();
  });

  test('needs a tag and metadata of the right types', async () => {
    const web = hub.web('bad');
    const metadata = { path: '/p', host: 'h' };
    for (const [body, field] of [
      [{ metadata }, 'tag'],
      [{ tag: '', metadata }, 'tag'],
      [{ tag: 5, metadata }, 'tag'],
      [{ tag: 't' }, 'metadata'],
      [{ tag: 't', metadata: 'text' }, 'metadata'],
      [{ tag: 't', metadata: { host: 'h' } }, 'metadata.path'],
      [{ tag: 't', metadata, agentState: [] }, 'agentState'],
      [{ tag: 't', metadata, model: 7 }, 'model'],
    ]) {
      const answer = await web.post('/cli/sessions', body);
      assert.equal(answer.status, 400, `${JSON.stringify(body)}: ${answer.text}`);
      assert.match(answer.body.error, new RegExp(field.split('.').at(-1)), answer.text);
    }
    for (const raw of ['', '{', '[]', '"text"', 'null']) {
      const answer = await web.request('POST', '/cli/sessions', { raw });
      assert.equal(answer.status, 400, `${raw}: ${answer.text}`);
      if (raw !== '') assertRefused(answer, 400, 'invalid_body');
    }
    assert.deepEqual(await listed(web), []);
  });
});

describe('the list', () => {
  test('has summaries, the active ones first and then the last changed', async (t) => {
    const web = hub.web('list');
    const [old, middle, recent] = [
      await web.openSession({ tag: 'old', metadata: { summary: { text: 'What it is about', updatedAt: 5 }, flavor: 'gamma' } }),
      await web.openSession({ tag: 'middle' }),
      await web.openSession({ tag: 'recent' }),
    ];
    const cli = await connectCli(t, hub, { namespace: 'list', auth: { sessionId: old.id } });
    await cli.keepAlive(old.id);
    await web.patch(`/api/sessions/${middle.id}`, { name: 'A better name' });
    await cli.keepAlive(old.id, { thinking: true, permissionMode: 'plan' });
    await cli.emitWithAck('update-state', {
      sid: old.id,
      expectedVersion: 1,
      agentState: { requests: { r1: { tool: 'shell', arguments: {} }, r2: { tool: 'edit', arguments: {} } } },
    });

    const summaries = await listed(web);
    assert.deepEqual(summaries.map(({ id }) => id), [old.id, middle.id, recent.id]);
    const [summary] = summaries;
    assert.deepEqual(
      [summary.active, summary.thinking, summary.permissionMode, summary.pendingRequestsCount, summary.todoProgress],
      [true, true, 'plan', 2, null],
    );
    assert.deepEqual([summary.metadata.path, summary.metadata.host, summary.metadata.flavor], ['/code/old', 'e2e', 'gamma']);
    assert.equal(summary.metadata.summary.text, 'What it is about');
    assert.equal(summaries[1].metadata.name, 'A better name');
    for (const time of ['activeAt', 'updatedAt', 'createdAt']) assert.equal(typeof summary[time], 'number', time);
    for (const hidden of ['agentState', 'tag', 'namespace']) assert.equal(hidden in summary, false, hidden);
  });

  test('leaves archived sessions out unless they are asked for', async () => {
    const web = hub.web('archive');
    const plain = await web.openSession({ tag: 'plain' });
    const archived = await web.openSession({ tag: 'archived', metadata: { lifecycleState: 'archived', archivedBy: 'cli' } });
    const ids = async (query) => (await listed(web, query)).map(({ id }) => id).sort();
    assert.deepEqual(await ids(''), [plain.id]);
    assert.deepEqual(await ids('?archived=only'), [archived.id]);
    assert.deepEqual(await ids('?archived=include'), [plain.id, archived.id].sort());
    assertRefused(await web.get('/api/sessions?archived=maybe'), 400, 'invalid_field', 'archived');
  });

  test('counts the todos that the agent wrote', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'todos', tag: 'todos' });
    const todos = [
      { id: '1', content: 'First', status: 'completed', priority: 'high' },
      { id: '2', content: 'Second', status: 'in_progress', priority: 'low' },
    ];
    const call = { type: 'tool_use', name: 'TodoWrite', input: { todos } };
    await cli.sendMessage(session.id, { role: 'agent', content: { type: 'output', data: { type: 'assistant', message: { content: [call] } } } });
    assert.deepEqual((await get(hub.web('todos'), session.id)).todos, todos);
    assert.deepEqual((await listed(hub.web('todos')))[0].todoProgress, { completed: 1, total: 2 });
  });
});

describe('renaming', () => {
  test('puts a name into the metadata, counts its version up, and tells the CLI', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'names', tag: 'rename', metadata: { extra: [1, { two: 2 }] } });
    const web = hub.web('names');
    const answer = await web.patch(`/api/sessions/${session.id}`, { name: '  Fix the build  ', unknown: 'ignored' });
    assert.deepEqual([answer.status, answer.body], [200, { ok: true, metadataVersion: 2 }]);
    const renamed = await get(web, session.id);
    assert.deepEqual(renamed.metadata, { ...session.metadata, name: 'Fix the build' });
    assert.equal(renamed.metadataVersion, 2);
    const { sid, metadata, agentState } = await cli.nextUpdate('update-session');
    assert.deepEqual([sid, metadata.version, metadata.value.name, agentState], [session.id, 2, 'Fix the build', null]);
  });

  test('that expects another version is a conflict and changes nothing', async () => {
    const web = hub.web('names');
    const { id } = await web.openSession({ tag: 'versions' });
    const rename = (body) => web.patch(`/api/sessions/${id}`, body);
    assert.deepEqual((await rename({ name: 'two', expectedVersion: 1 })).body, { ok: true, metadataVersion: 2 });
    assertRefused(await rename({ name: 'three', expectedVersion: 1 }), 409, 'version_conflict');
    const both = await Promise.all(['left', 'right'].map((name) => rename({ name, expectedVersion: 2 })));
    assert.deepEqual(both.map(({ status }) => status).sort(), [200, 409], 'one of two wins');
    assert.equal((await get(web, id)).metadataVersion, 3);
  });

  test('takes 1 to 255 characters, however many bytes each has', async () => {
    const web = hub.web('names');
    const { id } = await web.openSession({ tag: 'length' });
    const longest = '𝒳'.repeat(255);
    assert.equal((await web.patch(`/api/sessions/${id}`, { name: longest })).status, 200);
    assert.equal((await get(web, id)).metadata.name, longest);
    for (const name of ['', '   ', `${longest}x`, 7, null, undefined]) {
      assertRefused(await web.patch(`/api/sessions/${id}`, { name }), 400, 'invalid_field', 'name');
    }
    assertRefused(await web.patch(`/api/sessions/${id}`, { name: 'x', expectedVersion: '2' }), 400, 'invalid_field', 'expectedVersion');
    for (const raw of ['{"name":', '[]', '"name"']) {
      assertRefused(await web.request('PATCH', `/api/sessions/${id}`, { raw }), 400, 'invalid_body');
    }
    assert.equal((await get(web, id)).metadata.name, longest);
  });
});

describe('deleting', () => {
  test('is refused while the session is active, then takes its messages along', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'gone', tag: 'delete' });
    const web = hub.web('gone');
    await cli.sendMessage(session.id, { text: 'soon forgotten' }, 'local');
    assertRefused(await web.delete(`/api/sessions/${session.id}`), 409, 'session_active');
    await cli.emitWithAck('session-end', { sid: session.id, time: Date.now() });
    assert.deepEqual((await web.delete(`/api/sessions/${session.id}`)).body, { ok: true });

    assertRefused(await web.get(`/api/sessions/${session.id}`), 404, 'session_not_found');
    assertRefused(await web.get(`/api/sessions/${session.id}/messages`), 404, 'session_not_found');
    assertRefused(await web.delete(`/api/sessions/${session.id}`), 404, 'session_not_found');
    assert.deepEqual(await listed(web), []);
    const refused = await cli.sendMessage(session.id, { text: 'to nobody' });
    assert.equal(refused.ok, false);
    assert.equal((await cli.nextError()).code, 'not-found');

    const next = await web.openSession({ tag: 'delete' });
    assert.notEqual(next.id, session.id);
    assert.deepEqual([next.seq, await web.readHistory(next.id)], [0, []]);
  });
});

describe('messages', () => {
  test('need an active session, and a text or attachments', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'messages', tag: 'send' });
    const web = hub.web('messages');
    const send = (body) => web.post(`/api/sessions/${session.id}/messages`, body);
    const file = { id: 'a', filename: 'a.txt', mimeType: 'text/plain', size: 1, path: '/uploads/a.txt' };
    for (const [body, field] of [
      [{}, 'text'],
      [{ text: '' }, 'text'],
      [{ text: '', attachments: [] }, 'text'],
      [{ text: 5 }, 'text'],
      [{ text: 'x'.repeat(1024 * 1024 + 1) }, 'text'],
      [{ text: 'x', localId: 9 }, 'localId'],
      [{ attachments: [{ ...file, path: undefined }] }, 'path'],
      [{ attachments: [{ ...file, size: '1' }] }, 'size'],
      [{ attachments: file }, 'attachments'],
    ]) {
      const answer = await send(body);
      assert.equal(answer.status, 400, `${field}: ${answer.text}`);
      assert.match(answer.body.error, new RegExp(field), answer.text);
    }
    assert.equal((await send({ text: 'x'.repeat(1024 * 1024) })).status, 200, 'a text of 1 MiB');
    assert.equal((await send({ attachments: [file] })).status, 200, 'attachments alone');
    const [, { content }] = await web.readHistory(session.id);
    assert.deepEqual(content, { role: 'user', content: { type: 'text', text: '', attachments: [file] }, meta: { sentFrom: 'web' } });

    await cli.emitWithAck('session-end', { sid: session.id, time: Date.now() });
    assertRefused(await send({ text: 'too late' }), 409, 'session_inactive');
    assert.equal((await web.readHistory(session.id)).length, 2);
  });

  test('are read in pages, backwards by beforeSeq and forwards by afterSeq', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'messages', tag: 'pages' });
    const web = hub.web('messages');
    for (let n = 1; n <= 7; n += 1) await cli.sendMessage(session.id, { n });
    const page = async (query, from = 'api') => (await web.get(`/${from}/sessions/${session.id}/messages${query}`)).body;
    const seqs = ({ messages }) => messages.map(({ seq }) => seq);

    const newest = await page('?limit=3');
    assert.deepEqual([seqs(newest), newest.hasMore], [[7, 6, 5], true]);
    assert.deepEqual(newest.page, { limit: 3, beforeSeq: null, nextBeforeSeq: 5, hasMore: true });
    const oldest = await page(`?limit=50&beforeSeq=${newest.page.nextBeforeSeq}`);
    assert.deepEqual([seqs(oldest), oldest.hasMore], [[4, 3, 2, 1], false]);
    assert.deepEqual(oldest.page, { limit: 50, beforeSeq: 5, nextBeforeSeq: null, hasMore: false });
    assert.deepEqual(seqs(await page('')), [7, 6, 5, 4, 3, 2, 1]);
    assert.deepEqual(seqs(await page('?afterSeq=5')), [6, 7]);
    assert.deepEqual(seqs(await page('?afterSeq=2&limit=2', 'cli')), [3, 4]);
    assert.deepEqual(seqs(await page('', 'cli')), [1, 2, 3, 4, 5, 6, 7]);

    for (const from of ['api', 'cli']) {
      for (const [query, field] of [
        ['?limit=0', 'limit'],
        ['?limit=201', 'limit'],
        ['?limit=ten', 'limit'],
        ['?limit=-1', 'limit'],
        ['?beforeSeq=x', 'beforeSeq'],
        ['?beforeSeq=-1', 'beforeSeq'],
        ['?afterSeq=1.5', 'afterSeq'],
      ]) {
        const answer = await web.get(`/${from}/sessions/${session.id}/messages${query}`);
        assertRefused(answer, 400, 'invalid_field', field);
      }
    }
  });

  test('with a localId seen before are the same message, from the web and from the CLI', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'messages', tag: 'localId' });
    const web = hub.web('messages');
    const send = async (text, localId) => (await web.post(`/api/sessions/${session.id}/messages`, { text, localId })).body;
    const first = await send('once', 'web-1');
    assert.deepEqual([first.message.seq, first.message.localId], [1, 'web-1']);
    assert.deepEqual(await send('twice', 'web-1'), first);
    const ack = await cli.sendMessage(session.id, { n: 1 }, 'cli-1');
    assert.deepEqual(await cli.sendMessage(session.id, { n: 2 }, 'cli-1'), ack);
    const race = await Promise.all(Array.from({ length: 5 }, () => cli.sendMessage(session.id, { n: 3 }, 'cli-2')));
    assert.deepEqual([...new Set(race.map(({ seq }) => seq))], [3]);
    const history = await web.readHistory(session.id);
    assert.deepEqual(history.map(({ seq, localId }) => [seq, localId]), [[1, 'web-1'], [2, 'cli-1'], [3, 'cli-2']]);
    assert.deepEqual(history[1].content, { n: 1 });
    // Local ids are each session's own.
    const other = await liveSession(t, hub, { namespace: 'messages', tag: 'localId elsewhere' });
    assert.equal((await other.cli.sendMessage(other.session.id, { n: 4 }, 'cli-1')).seq, 1);
  });

  test('go to the other sockets of their session, not back to the one they came from', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'messages', tag: 'two sockets' });
    const second = await connectCli(t, hub, { namespace: 'messages', auth: { sessionId: session.id } });
    await cli.sendMessage(session.id, { from: 'the first' }, 'l1');
    const heard = await second.nextUpdate('new-message');
    const { seq, localId, content } = heard.message;
    assert.deepEqual([heard.sid, seq, localId, content], [session.id, 1, 'l1', { from: 'the first' }]);
    await second.sendMessage(session.id, { from: 'the second' });
    assert.deepEqual((await cli.nextUpdate('new-message')).message.content, { from: 'the second' }, 'the first one heard nothing before');
    const own = cli.events.all.filter(({ payload }) => payload?.body?.message?.content.from === 'the first');
    assert.deepEqual(own, []);
  });

  test('given as a JSON string are read as what the string holds', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'messages', tag: 'strings' });
    await cli.sendMessage(session.id, '{"role":"agent","content":"wrapped"}');
    await cli.sendMessage(session.id, 'just words');
    const contents = (await hub.web('messages').readHistory(session.id)).map(({ content }) => content);
    assert.deepEqual(contents, [{ role: 'agent', content: 'wrapped' }, 'just words']);
  });

  test('that are malformed are refused in the acknowledgement and the socket lives on', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'messages', tag: 'malformed' });
    for (const payload of [{}, { sid: session.id }, { sid: 5, message: {} }, 'text', null, { sid: session.id, message: {}, localId: 5 }]) {
      const ack = await cli.emitWithAck('message', payload);
      assert.deepEqual([ack.ok, typeof ack.error], [false, 'string'], JSON.stringify(payload));
    }
    cli.socket.emit('session-alive', { sid: session.id });
    assert.equal(typeof (await cli.nextError()).message, 'string', 'without an acknowledgement an error event tells');
    assert.equal((await cli.sendMessage(session.id, { n: 1 })).seq, 1);
  });
});

describe('versioned updates of a CLI', () => {
  const PARTS = { metadata: 'update-metadata', agentState: 'update-state' };
  for (const [field, name] of Object.entries(PARTS)) {
    test(`${name} counts the version up, and tells the version and value that stand when it is not expected`, async (t) => {
      const { session, cli } = await liveSession(t, hub, { namespace: 'updates', tag: name });
      const second = await connectCli(t, hub, { namespace: 'updates', auth: { sessionId: session.id } });
      const feed = await hub.web('updates').socket({ sessionId: session.id });
      await feed.waitForGreeting();
      const value = field === 'metadata' ? { ...session.metadata, extra: 1 } : { requests: {}, extra: 1 };
      const update = (expectedVersion, next) => cli.emitWithAck(name, { sid: session.id, expectedVersion, [field]: next });

      assert.deepEqual(await update(1, value), { result: 'success', version: 2, [field]: value });
      assert.deepEqual(await update(1, { path: '/late', host: 'h' }), { result: 'version-mismatch', version: 2, [field]: value });
      const told = await second.nextUpdate('update-session');
      const other = field === 'metadata' ? 'agentState' : 'metadata';
      assert.deepEqual([told.sid, told[field], told[other]], [session.id, { version: 2, value }, null]);
      const { data } = await feed.nextUpdate({ [`${field}Version`]: 2 });
      assert.deepEqual(data[field], value);
      const stored = await get(hub.web('updates'), session.id);
      assert.deepEqual([stored[field], stored[`${field}Version`]], [value, 2]);

      for (const [payload, word] of [
        [{ sid: session.id, expectedVersion: 2, [field]: 'text' }, field],
        [{ sid: session.id, expectedVersion: -1, [field]: value }, 'expectedVersion'],
        [{ sid: session.id, [field]: value }, 'expectedVersion'],
        [{ expectedVersion: 2, [field]: value }, 'sid'],
        [{ sid: session.id, expectedVersion: 2 }, field],
      ]) {
        const ack = await cli.emitWithAck(name, payload);
        assert.equal(ack.result, 'error', JSON.stringify(payload));
        assert.match(ack.reason, new RegExp(word), ack.reason);
      }
      assert.equal((await get(hub.web('updates'), session.id))[`${field}Version`], 2);
      feed.close();
    });

    test(`${name} of ten clients at once lets one win each version`, async (t) => {
      const { session, cli } = await liveSession(t, hub, { namespace: 'updates', tag: `race ${name}` });
      const tries = Array.from({ length: 10 }, (_, n) =>
        cli.emitWithAck(name, { sid: session.id, expectedVersion: 1, [field]: { path: '/p', host: 'h', n } }),
      );
      const results = (await Promise.all(tries)).map(({ result }) => result);
      assert.deepEqual(results.sort(), ['success', ...Array(9).fill('version-mismatch')]);
      assert.equal((await get(hub.web('updates'), session.id))[`${field}Version`], 2);
    });
  }
});

describe('JSON that is not the hub’s business', () => {
  test('comes back as it was written, from metadata, agent state and messages', async (t) => {
    const web = hub.web('opaque');
    const created = await web.request('POST', '/cli/sessions', {
      raw: `{"tag":"opaque","metadata":{"path":"/p","host":"h","raw":${OPAQUE}},"agentState":{"raw":${OPAQUE}}}`,
    });
    assert.equal(created.text.split(OPAQUE).length, 3, created.text);
    const { id } = created.body.session;
    const cli = await connectCli(t, hub, { namespace: 'opaque', auth: { sessionId: id } });
    const second = await connectCli(t, hub, { namespace: 'opaque', auth: { sessionId: id } });

    const metadata = withOpaque({ path: '/p', zeta: 1, alpha: 2, host: 'h' });
    const written = `{"path":"/p","zeta":1,"alpha":2,"host":"h",${OPAQUE_TAIL}`;
    assert.equal((await cli.emitWithAck('update-metadata', { sid: id, expectedVersion: 1, metadata })).result, 'success');
    assert.ok((await web.get(`/api/sessions/${id}`)).text.includes(`"metadata":${written}`));
    await cli.frames.first((frame) => frame.includes(`"metadata":${written}`), 'the value in the acknowledgement, as written');
    await second.frames.first((frame) => frame.includes(`"value":${written}`), 'the update of the metadata, as written');

    await cli.sendMessage(id, withOpaque({ role: 'agent', zeta: [], alpha: {} }));
    const content = `{"role":"agent","zeta":[],"alpha":{},${OPAQUE_TAIL}`;
    assert.ok((await web.get(`/api/sessions/${id}/messages`)).text.includes(`"content":${content}`));
    assert.ok((await web.get(`/cli/sessions/${id}/messages`)).text.includes(`"content":${content}`));
    await second.frames.first((frame) => frame.includes(`"content":${content}`), 'the message, as written');

    // A new name goes into the metadata without a change to the rest of it.
    await web.patch(`/api/sessions/${id}`, { name: 'N' });
    const renamed = (await web.get(`/api/sessions/${id}`)).text;
    assert.ok(renamed.includes('"zeta":1,"alpha":2'), renamed);
    assert.ok(renamed.includes('"opaque":9007199254740993') && renamed.includes('"form":1.0'), renamed);
  });
});

describe('machines', () => {
  test('are made known, updated by version, and listed while they are online', async (t) => {
    const web = hub.web('machines');
    const metadata = { host: 'box', platform: 'linux', displayName: 'The box', future: [1] };
    const made = await web.registerMachine({ id: 'm-1', metadata, runnerState: { status: 'running' } });
    assert.deepEqual([made.id, made.namespace, made.active], ['m-1', 'machines', false]);
    assert.deepEqual([made.metadataVersion, made.runnerStateVersion], [1, 1]);
    assert.deepEqual([made.metadata, made.runnerState], [metadata, { status: 'running' }]);
    assert.deepEqual((await web.get('/api/machines')).body, { machines: [] }, 'it is not online yet');
    assert.deepEqual((await web.get('/cli/machines/m-1')).body.machine.metadata, metadata);

    const cli = await connectCli(t, hub, { namespace: 'machines', auth: { machineId: 'm-1' } });
    const second = await connectCli(t, hub, { namespace: 'machines', auth: { machineId: 'm-1' } });
    await cli.emitWithAck('machine-alive', { machineId: 'm-1', time: Date.now() });
    await web.registerMachine({ id: 'm-2' });
    await cli.emitWithAck('machine-alive', { machineId: 'm-2', time: Date.now() });
    const online = (await web.get('/api/machines')).body.machines;
    assert.deepEqual(online.map(({ id }) => id), ['m-2', 'm-1'], 'the newest activity first');
    for (const field of ['seq', 'createdAt', 'updatedAt', 'activeAt']) assert.equal(typeof online[0][field], 'number', field);

    for (const [name, field, value] of [
      ['machine-update-metadata', 'metadata', { ...metadata, displayName: 'Renamed' }],
      ['machine-update-state', 'runnerState', { status: 'busy' }],
    ]) {
      const update = (expectedVersion) => cli.emitWithAck(name, { machineId: 'm-1', expectedVersion, [field]: value });
      assert.deepEqual(await update(1), { result: 'success', version: 2, [field]: value });
      assert.deepEqual(await update(1), { result: 'version-mismatch', version: 2, [field]: value });
      const told = await second.nextUpdate('update-machine');
      assert.deepEqual([told.machineId, told[field]], ['m-1', { version: 2, value }]);
      const machine = (await web.get('/cli/machines/m-1')).body.machine;
      assert.deepEqual([machine[field], machine[`${field}Version`]], [value, 2]);
    }
  });

  test('need an id and metadata of the right types', async () => {
    const web = hub.web('machines');
    for (const [body, field] of [
      [{ metadata: {} }, 'id'],
      [{ id: '', metadata: {} }, 'id'],
      [{ id: 'm', metadata: 5 }, 'metadata'],
      [{ id: 'm' }, 'metadata'],
    ]) {
      assertRefused(await web.post('/cli/machines', body), 400, 'invalid_field', field);
    }
    assertRefused(await web.get('/cli/machines/nobody'), 404, 'machine_not_found');
  });
});
