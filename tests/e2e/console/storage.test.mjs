/** The quota of storage: an agent keeps its messages while the storage is full, and the console says so. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { Outbox } from '../../../packages/cli-kit/src/outbox.mjs';
import { Chat, startConsole } from '../lib/console.mjs';

const { hub, visit } = await startConsole({ vars: { NAMESPACE_MAX_BYTES: 1000, NAMESPACE_MAX_SESSIONS: 2 } });

const bytes = (count) => 'x'.repeat(count - 2);

test('the console shows a notice from 90 % on, and an agent sends what it kept when a session is deleted', async (t) => {
  const namespace = 'storage';
  const { session, cli } = await liveSession(t, hub, { namespace, tag: '/agent' });
  const old = await hub.web(namespace).openSession({ tag: '/old', metadata: { path: '/old', host: 'box' } });
  const { page } = await visit(t, namespace);
  const notice = page.locator('.list-notices .notice');
  await page.getByRole('searchbox', { name: 'Search sessions' }).waitFor();
  assert.equal((await cli.sendMessage(session.id, bytes(900))).ok, true);
  await notice.getByText('The storage is nearly full: 90 % is used.').waitFor();
  assert.equal((await cli.sendMessage(old.id, bytes(100))).ok, true);
  await notice.getByText('The storage is full: new messages wait or are refused.').waitFor();

  const warnings = [];
  const socket = {
    isConnected: true,
    sendWithAck: async (event, payload) => ({ ack: await cli.emitWithAck(event, payload) }),
    reconnect: () => assert.fail('a refusal is no reason to reconnect'),
  };
  const box = new Outbox({ socket, sid: session.id, log: { warn: (text) => warnings.push(text) } });
  t.after(() => box.close());
  await box.push('kept');
  const refused = await cli.sendMessage(session.id, 'refused');
  assert.deepEqual([refused.code, refused.quota, refused.retryAfterMs], ['overloaded', 'storage', 60_000]);
  const { status, body } = await hub.web(namespace).post('/cli/sessions', { tag: '/new', metadata: { path: '/', host: 'box' } });
  assert.deepEqual([status, body.code], [409, 'too_many_sessions']);
  await page.getByRole('link', { name: 'in the archive' }).click();
  await page.getByRole('heading', { name: 'Archive', exact: true }).waitFor();

  assert.equal((await hub.web(namespace).delete(`/api/sessions/${old.id}`)).status, 200);
  await notice.getByText('The storage is nearly full').waitFor();
  // The connection is new, so the outbox sends at once instead of a minute later.
  box.onConnected();
  assert.equal(await box.flush(10_000), true);
  assert.match(warnings.join(), /storage of the namespace is full/);
  await page.goto(`${hub.url}/sessions/${session.id}`);
  await new Chat(page).composer.waitFor();
});
