/** Sessions over REST and from CLIs. tests/it has all cases: session_list, lifecycle.rs, cli_sockets.rs, concurrency.rs, bad_input. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { assertRefused } from './lib/assertions.mjs';
import { connectCli } from '../../scripts/product/clients/cli.mjs';
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
