/** Sessions over REST and from CLIs: create, list, rename, update by version, delete. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { assertRefused } from './lib/assertions.mjs';
import { connectCli, liveSession } from '../../scripts/lib/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub();
after(() => hub.stop());

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** JSON text that parsing and printing would change: large numbers, number formats, key order, escapes. */
const RAW_JSON =
  '{"zeta":9007199254740993,"alpha":1.0,"tiny":1e-400,"huge":123456789012345678901234567890,"nested":{"b":[],"a":null},"text":"\\u00fc \\/"}';

/** Adds numbers that the official client sends as exactly this text. */
const withRawNumbers = (fields) => ({ ...fields, opaque: JSON.rawJSON('9007199254740993'), form: JSON.rawJSON('1.0') });
const RAW_NUMBERS = '"opaque":9007199254740993,"form":1.0}';

async function listSessions(web, query = '') {
  return (await web.get(`/api/sessions${query}`)).body.sessions;
}

describe('POST /cli/sessions', () => {
  test('creates a session for a new tag, and later returns the same session', async () => {
    const web = hub.web('tags');
    const before = Date.now();
    const metadata = { path: '/code/a', host: 'h', flavor: 'beta', future: { unknown: true } };
    const first = await web.openSession({ tag: '/code/a', metadata, agentState: { requests: {} }, model: 'model_fast' });
    assert.match(first.id, UUID_V7);
    const { createdAt, ...rest } = first;
    assert.ok(createdAt >= before && createdAt <= Date.now());
    assert.deepEqual(
      [rest.tag, rest.namespace, rest.seq, rest.active, rest.thinking, rest.metadataVersion, rest.agentStateVersion],
      ['/code/a', 'tags', 0, false, false, 1, 1],
    );
    assert.deepEqual([rest.metadata, rest.agentState], [metadata, { requests: {} }]);

    const second = await web.openSession({ tag: '/code/a', metadata: { path: '/elsewhere' } });
    assert.deepEqual(second, first);
    assert.deepEqual((await web.get(`/cli/sessions/${first.id}`)).body, { session: first });
    assert.deepEqual((await web.get(`/api/sessions/${first.id}`)).body, { session: first });
    assert.notEqual((await web.openSession({ tag: '/code/b' })).id, first.id);
  });

  test('creates one session for ten concurrent requests', async () => {
    const web = hub.web('race');
    const feed = await web.openStream({ all: 'true' });
    await feed.waitForGreeting();
    const sessions = await Promise.all(Array.from({ length: 10 }, () => web.openSession({ tag: 'the same' })));
    assert.equal(new Set(sessions.map(({ id }) => id)).size, 1);
    assert.equal((await listSessions(web)).length, 1);

    const other = await web.openSession({ tag: 'another' });
    await feed.nextEvent('session-added', other.id);
    const added = feed.all.filter(({ type }) => type === 'session-added').map(({ sessionId }) => sessionId);
    assert.deepEqual(added, [sessions[0].id, other.id], 'one event for each');
    feed.close();
  });

  test('requires a tag and metadata of the right types', async () => {
    const web = hub.web('invalid');
    const metadata = { path: '/p', host: 'h' };
    for (const [body, field] of /** @type {any[]} */ ([
      [{ metadata }, 'tag'],
      [{ tag: '', metadata }, 'tag'],
      [{ tag: 5, metadata }, 'tag'],
      [{ tag: 't' }, 'metadata'],
      [{ tag: 't', metadata: 'text' }, 'metadata'],
      [{ tag: 't', metadata: { host: 'h' } }, 'metadata.path'],
      [{ tag: 't', metadata, agentState: [] }, 'agentState'],
      [{ tag: 't', metadata, model: 7 }, 'model'],
    ])) {
      const answer = await web.post('/cli/sessions', body);
      assert.equal(answer.status, 400, `${JSON.stringify(body)}: ${answer.text}`);
      assert.match(answer.body.error, new RegExp(field.split('.').at(-1)), answer.text);
    }
    for (const raw of ['', '{', '[]', '"text"', 'null']) {
      const answer = await web.request('POST', '/cli/sessions', { raw });
      assert.equal(answer.status, 400, `${raw}: ${answer.text}`);
      if (raw !== '') assertRefused(answer, 400, 'invalid_body');
    }
    assert.deepEqual(await listSessions(web), []);
  });
});

describe('the list', () => {
  test('contains summaries: active sessions first, then the most recently changed', async (t) => {
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

    const summaries = await listSessions(web);
    assert.deepEqual(
      summaries.map(({ id }) => id),
      [old.id, middle.id, recent.id],
    );
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

  test('contains archived sessions only on request', async () => {
    const web = hub.web('archive');
    const plain = await web.openSession({ tag: 'plain' });
    const archived = await web.openSession({ tag: 'archived', metadata: { lifecycleState: 'archived', archivedBy: 'cli' } });
    const listIds = async (query) => (await listSessions(web, query)).map(({ id }) => id).sort();
    assert.deepEqual(await listIds(''), [plain.id]);
    assert.deepEqual(await listIds('?archived=only'), [archived.id]);
    assert.deepEqual(await listIds('?archived=include'), [plain.id, archived.id].sort());
    assertRefused(await web.get('/api/sessions?archived=maybe'), 400, 'invalid_field', 'archived');
  });

  test('has the same pages from memory and after a hibernation', async () => {
    const web = hub.web('pages');
    const long = '\u0000é"'.repeat(300);
    for (let index = 0; index < 5; index++) {
      const metadata = { name: `${index}`, agentName: 'Zeta', summary: { text: long }, worktree: { branch: long, other: 1 }, flavor: 7 };
      await web.openSession({ tag: `page-${index}`, metadata });
    }
    const readPages = async () => {
      const pages = [];
      let cursor = '';
      do {
        const { body } = await web.get(`/api/sessions?limit=2&cursor=${cursor}`);
        pages.push(body.sessions);
        cursor = body.nextCursor;
      } while (cursor !== undefined);
      return pages;
    };
    const pages = await readPages();
    assert.deepEqual(
      pages.map((page) => page.map(({ metadata }) => metadata.name).join('')),
      ['43', '21', '0'],
    );
    const { summary, worktree, agentName, flavor } = pages[0][0].metadata;
    assert.ok(summary.text.length >= 150 && long.startsWith(summary.text), summary.text);
    assert.deepEqual([worktree, agentName, flavor], [{ branch: summary.text }, 'Zeta', null]);
    await hub.hibernate('pages');
    assert.deepEqual(await readPages(), pages);
    assertRefused(await web.get('/api/sessions?cursor=2'), 400, 'invalid_field', 'cursor');
  });

  test('counts the todos that the agent wrote', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'todos', tag: 'todos' });
    const todos = [
      { id: '1', content: 'First', status: 'completed', priority: 'high' },
      { id: '2', content: 'Second', status: 'in_progress', priority: 'low' },
    ];
    const call = { type: 'tool_use', name: 'TodoWrite', input: { todos } };
    await cli.sendMessage(session.id, {
      role: 'agent',
      content: { type: 'output', data: { type: 'assistant', message: { content: [call] } } },
    });
    assert.deepEqual((await hub.web('todos').readSession(session.id)).todos, todos);
    assert.deepEqual((await listSessions(hub.web('todos')))[0].todoProgress, { completed: 1, total: 2 });
  });
});

describe('renaming', () => {
  test('sets the name in the metadata, increments its version, and updates the CLI', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'names', tag: 'rename', metadata: { extra: [1, { two: 2 }] } });
    const web = hub.web('names');
    const answer = await web.patch(`/api/sessions/${session.id}`, { name: '  Fix the build  ', unknown: 'ignored' });
    assert.deepEqual([answer.status, answer.body], [200, { ok: true, metadataVersion: 2 }]);
    const renamed = await web.readSession(session.id);
    assert.deepEqual(renamed.metadata, { ...session.metadata, name: 'Fix the build' });
    assert.equal(renamed.metadataVersion, 2);
    const { sid, metadata, agentState } = await cli.nextUpdate('update-session');
    assert.deepEqual([sid, metadata.version, metadata.value.name, agentState], [session.id, 2, 'Fix the build', null]);
  });

  test('with another expected version is a conflict and changes nothing', async () => {
    const web = hub.web('names');
    const { id } = await web.openSession({ tag: 'versions' });
    const rename = (body) => web.patch(`/api/sessions/${id}`, body);
    assert.deepEqual((await rename({ name: 'two', expectedVersion: 1 })).body, { ok: true, metadataVersion: 2 });
    assertRefused(await rename({ name: 'three', expectedVersion: 1 }), 409, 'version_conflict');
    const responses = await Promise.all(['left', 'right'].map((name) => rename({ name, expectedVersion: 2 })));
    assert.deepEqual(responses.map(({ status }) => status).sort(), [200, 409], 'one of two succeeds');
    assert.equal((await web.readSession(id)).metadataVersion, 3);
  });

  test('accepts 1 to 255 characters of any number of bytes', async () => {
    const web = hub.web('names');
    const { id } = await web.openSession({ tag: 'length' });
    const longest = '𝒳'.repeat(255);
    assert.equal((await web.patch(`/api/sessions/${id}`, { name: longest })).status, 200);
    assert.equal((await web.readSession(id)).metadata.name, longest);
    for (const name of ['', '   ', `${longest}x`, 7, null, undefined]) {
      assertRefused(await web.patch(`/api/sessions/${id}`, { name }), 400, 'invalid_field', 'name');
    }
    assertRefused(await web.patch(`/api/sessions/${id}`, { name: 'x', expectedVersion: '2' }), 400, 'invalid_field', 'expectedVersion');
    for (const raw of ['{"name":', '[]', '"name"']) {
      assertRefused(await web.request('PATCH', `/api/sessions/${id}`, { raw }), 400, 'invalid_body');
    }
    assert.equal((await web.readSession(id)).metadata.name, longest);
  });
});

describe('deleting', () => {
  test('is refused for an active session, and removes the messages of an inactive one', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'deleted', tag: 'delete' });
    const web = hub.web('deleted');
    await cli.sendMessage(session.id, { text: 'soon deleted' }, 'local');
    assertRefused(await web.delete(`/api/sessions/${session.id}`), 409, 'session_active');
    await cli.emitWithAck('session-end', { sid: session.id, time: Date.now() });
    assert.deepEqual((await web.delete(`/api/sessions/${session.id}`)).body, { ok: true });

    assertRefused(await web.get(`/api/sessions/${session.id}`), 404, 'session_not_found');
    assertRefused(await web.get(`/api/sessions/${session.id}/messages`), 404, 'session_not_found');
    assertRefused(await web.delete(`/api/sessions/${session.id}`), 404, 'session_not_found');
    assert.deepEqual(await listSessions(web), []);
    const refused = await cli.sendMessage(session.id, { text: 'to a deleted session' });
    assert.equal(refused.ok, false);
    assert.equal((await cli.nextError()).code, 'not-found');

    const next = await web.openSession({ tag: 'delete' });
    assert.notEqual(next.id, session.id);
    assert.deepEqual([next.seq, await web.readHistory(next.id)], [0, []]);
  });
});

describe('versioned updates of a CLI', () => {
  const EVENTS = { metadata: 'update-metadata', agentState: 'update-state' };
  for (const [field, name] of Object.entries(EVENTS)) {
    test(`${name} increments the version, and returns the current version and value on a mismatch`, async (t) => {
      const { session, cli } = await liveSession(t, hub, { namespace: 'updates', tag: name });
      const second = await connectCli(t, hub, { namespace: 'updates', auth: { sessionId: session.id } });
      const feed = await hub.web('updates').openSocket({ sessionId: session.id });
      await feed.waitForGreeting();
      const value = field === 'metadata' ? { ...session.metadata, extra: 1 } : { requests: {}, extra: 1 };
      const update = (expectedVersion, next) => cli.emitWithAck(name, { sid: session.id, expectedVersion, [field]: next });

      assert.deepEqual(await update(1, value), { result: 'success', version: 2, [field]: value });
      assert.deepEqual(await update(1, { path: '/late', host: 'h' }), { result: 'version-mismatch', version: 2, [field]: value });
      const receivedUpdate = await second.nextUpdate('update-session');
      const other = field === 'metadata' ? 'agentState' : 'metadata';
      assert.deepEqual([receivedUpdate.sid, receivedUpdate[field], receivedUpdate[other]], [session.id, { version: 2, value }, null]);
      const { data } = await feed.nextUpdate({ [`${field}Version`]: 2 });
      assert.deepEqual(data[field], value);
      const stored = await hub.web('updates').readSession(session.id);
      assert.deepEqual([stored[field], stored[`${field}Version`]], [value, 2]);

      for (const [payload, invalidField] of /** @type {any[]} */ ([
        [{ sid: session.id, expectedVersion: 2, [field]: 'text' }, field],
        [{ sid: session.id, expectedVersion: -1, [field]: value }, 'expectedVersion'],
        [{ sid: session.id, [field]: value }, 'expectedVersion'],
        [{ expectedVersion: 2, [field]: value }, 'sid'],
        [{ sid: session.id, expectedVersion: 2 }, field],
      ])) {
        const ack = await cli.emitWithAck(name, payload);
        assert.equal(ack.result, 'error', JSON.stringify(payload));
        assert.match(ack.reason, new RegExp(invalidField), ack.reason);
      }
      assert.equal((await hub.web('updates').readSession(session.id))[`${field}Version`], 2);
      feed.close();
    });

    test(`${name}: one of ten concurrent updates of a version succeeds`, async (t) => {
      const { session, cli } = await liveSession(t, hub, { namespace: 'updates', tag: `race ${name}` });
      const updates = Array.from({ length: 10 }, (_, n) =>
        cli.emitWithAck(name, { sid: session.id, expectedVersion: 1, [field]: { path: '/p', host: 'h', n } }),
      );
      const results = (await Promise.all(updates)).map(({ result }) => result);
      assert.deepEqual(results.sort(), ['success', ...Array(9).fill('version-mismatch')]);
      assert.equal((await hub.web('updates').readSession(session.id))[`${field}Version`], 2);
    });
  }
});

describe('JSON that the hub does not interpret', () => {
  test('is returned as it was written, in metadata, agent state and messages', async (t) => {
    const web = hub.web('opaque');
    const created = await web.request('POST', '/cli/sessions', {
      raw: `{"tag":"opaque","metadata":{"path":"/p","host":"h","raw":${RAW_JSON}},"agentState":{"raw":${RAW_JSON}}}`,
    });
    assert.equal(created.text.split(RAW_JSON).length, 3, created.text);
    const { id } = created.body.session;
    const cli = await connectCli(t, hub, { namespace: 'opaque', auth: { sessionId: id } });
    const second = await connectCli(t, hub, { namespace: 'opaque', auth: { sessionId: id } });

    const metadata = withRawNumbers({ path: '/p', zeta: 1, alpha: 2, host: 'h' });
    const writtenJson = `{"path":"/p","zeta":1,"alpha":2,"host":"h",${RAW_NUMBERS}`;
    assert.equal((await cli.emitWithAck('update-metadata', { sid: id, expectedVersion: 1, metadata })).result, 'success');
    assert.ok((await web.get(`/api/sessions/${id}`)).text.includes(`"metadata":${writtenJson}`));
    await cli.frames.first((frame) => frame.includes(`"metadata":${writtenJson}`), 'the value in the acknowledgement, as written');
    await second.frames.first((frame) => frame.includes(`"value":${writtenJson}`), 'the update of the metadata, as written');

    await cli.sendMessage(id, withRawNumbers({ role: 'agent', zeta: [], alpha: {} }));
    const writtenContent = `{"role":"agent","zeta":[],"alpha":{},${RAW_NUMBERS}`;
    assert.ok((await web.get(`/api/sessions/${id}/messages`)).text.includes(`"content":${writtenContent}`));
    assert.ok((await web.get(`/cli/sessions/${id}/messages`)).text.includes(`"content":${writtenContent}`));
    await second.frames.first((frame) => frame.includes(`"content":${writtenContent}`), 'the message, as written');

    // A rename changes only the name in the metadata.
    await web.patch(`/api/sessions/${id}`, { name: 'N' });
    const renamed = (await web.get(`/api/sessions/${id}`)).text;
    assert.ok(renamed.includes('"zeta":1,"alpha":2'), renamed);
    assert.ok(renamed.includes('"opaque":9007199254740993') && renamed.includes('"form":1.0'), renamed);
  });
});
