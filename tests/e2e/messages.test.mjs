/** Messages over REST and from CLIs: validation, pages, deduplication by local id, and publication. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { assertRefused } from './lib/assertions.mjs';
import { liveSession } from '../../scripts/lib/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub();
after(() => hub.stop());

describe('messages', () => {
  test('require an active session, and a text or attachments', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'messages', tag: 'send' });
    const web = hub.web('messages');
    const send = (body) => web.post(`/api/sessions/${session.id}/messages`, body);
    const file = { id: 'a', filename: 'a.txt', mimeType: 'text/plain', size: 1, path: '/uploads/a.txt' };
    for (const [body, field] of /** @type {any[]} */ ([
      [{}, 'text'],
      [{ text: '' }, 'text'],
      [{ text: '', attachments: [] }, 'text'],
      [{ text: 5 }, 'text'],
      [{ text: 'x'.repeat(1024 * 1024 + 1) }, 'text'],
      [{ text: 'x', localId: 9 }, 'localId'],
      [{ attachments: [{ ...file, path: undefined }] }, 'path'],
      [{ attachments: [{ ...file, size: '1' }] }, 'size'],
      [{ attachments: file }, 'attachments'],
    ])) {
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
    const readPage = async (query, prefix = 'api') => (await web.get(`/${prefix}/sessions/${session.id}/messages${query}`)).body;
    const seqsOf = ({ messages }) => messages.map(({ seq }) => seq);

    const newest = await readPage('?limit=3');
    assert.deepEqual([seqsOf(newest), newest.hasMore], [[7, 6, 5], true]);
    assert.deepEqual(newest.page, { limit: 3, beforeSeq: null, nextBeforeSeq: 5, hasMore: true });
    const oldest = await readPage(`?limit=50&beforeSeq=${newest.page.nextBeforeSeq}`);
    assert.deepEqual([seqsOf(oldest), oldest.hasMore], [[4, 3, 2, 1], false]);
    assert.deepEqual(oldest.page, { limit: 50, beforeSeq: 5, nextBeforeSeq: null, hasMore: false });
    assert.deepEqual(seqsOf(await readPage('')), [7, 6, 5, 4, 3, 2, 1]);
    assert.deepEqual(seqsOf(await readPage('?afterSeq=5')), [6, 7]);
    assert.deepEqual(seqsOf(await readPage('?afterSeq=2&limit=2', 'cli')), [3, 4]);
    assert.deepEqual(seqsOf(await readPage('', 'cli')), [1, 2, 3, 4, 5, 6, 7]);

    for (const prefix of ['api', 'cli']) {
      for (const [query, field] of [
        ['?limit=0', 'limit'],
        ['?limit=201', 'limit'],
        ['?limit=ten', 'limit'],
        ['?limit=-1', 'limit'],
        ['?beforeSeq=x', 'beforeSeq'],
        ['?beforeSeq=-1', 'beforeSeq'],
        ['?afterSeq=1.5', 'afterSeq'],
      ]) {
        const answer = await web.get(`/${prefix}/sessions/${session.id}/messages${query}`);
        assertRefused(answer, 400, 'invalid_field', field);
      }
    }
  });
});
