/** Messages that are left for a machine that is away. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { connectCli } from '../../../scripts/product/clients/cli.mjs';
import { PHONE, signIn, waitForValue, waitForCount } from '../lib/browser.mjs';
import { Chat, startConsole } from '../lib/console.mjs';

const { hub, open } = await startConsole();

const metadata = { path: '/code/a', host: 'laptop', name: 'The talk', lifecycleState: 'running' };

/** Changes the inactive sessions that a page loads. */
const changeInactive = (page, change) =>
  page.route(/\/api\/sessions(\/[^/]+)?$/, async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    for (const session of body.sessions ?? [body.session]) if (!session.active) Object.assign(session, change(session));
    return route.fulfill({ response, json: body });
  });

/** Makes an inactive session look as if its CLI has been silent for a minute. */
const loseConnection = (page) => changeInactive(page, ({ updatedAt }) => ({ activeAt: updatedAt - 60_000 }));

test('leaves messages for a sleeping laptop, takes one back, and shows on all devices when the others are sent', async (t) => {
  const namespace = 'leave';
  const { id } = await hub.web(namespace).openSession({ tag: '/code/a', metadata });
  const { page } = await open(t);
  const { page: phone } = await open(t, PHONE);
  for (const device of [page, phone]) {
    await loseConnection(device);
    await signIn(device, hub, namespace, `/sessions/${id}`);
  }
  const chat = new Chat(page);
  const leave = page.getByRole('button', { name: 'Leave for laptop' });
  await chat.composer.fill('run the tests');
  await leave.click();
  await chat.log.getByText('Waits for laptop').waitFor();
  await chat.composer.fill('a mistake');
  await leave.click();
  await new Chat(phone).log.getByText('a mistake').waitFor();

  const canceled = phone.locator('.outgoing', { hasText: 'a mistake' });
  await canceled.getByRole('button', { name: 'Cancel' }).click();
  await canceled.waitFor({ state: 'detached' });
  await waitForValue(new Chat(phone).composer, 'a mistake');
  await page.locator('.outgoing', { hasText: 'a mistake' }).waitFor({ state: 'detached' });

  await page.reload();
  await chat.log.getByText('Waits for laptop').waitFor();
  const cli = await connectCli(t, hub, { namespace, auth: { sessionId: id } });
  await cli.keepAlive(id);
  for (const device of [page, phone]) {
    await device.getByText('Waits for laptop').waitFor({ state: 'detached' });
    await new Chat(device).log.getByText('run the tests').waitFor();
    await device.getByRole('button', { name: 'Send', exact: true }).waitFor();
  }
  const history = await hub.web(namespace).readHistory(id);
  assert.deepEqual(pluck(history, 'content.content.text'), ['run the tests']);
});

test('a message that failed because the laptop had just fallen asleep can be left for its return', async (t) => {
  const namespace = 'asleep';
  const { id } = await hub.web(namespace).openSession({ tag: '/code/a', metadata });
  const { page } = await open(t, PHONE);
  // The page has not heard yet that the laptop is away.
  await changeInactive(page, () => ({ active: true }));
  await signIn(page, hub, namespace, `/sessions/${id}`);
  const chat = new Chat(page);
  await chat.send('run the tests');
  const failed = chat.log.locator('.outgoing[data-state="failed"]');
  await failed.getByRole('button', { name: 'Retry' }).waitFor();
  await loseConnection(page);
  await page.reload();
  await failed.getByRole('button', { name: 'Leave for laptop' }).click();
  await chat.log.getByText('Waits for laptop').waitFor();
  const { messages } = (await hub.web(namespace).get(`/api/sessions/${id}/held-messages`)).body;
  assert.equal(messages.length, 1);
  const cli = await connectCli(t, hub, { namespace, auth: { sessionId: id } });
  await cli.keepAlive(id);
  await page.getByText('Waits for laptop').waitFor({ state: 'detached' });
  assert.equal((await hub.web(namespace).readHistory(id)).length, 1);
});

test('while a decision is open, the composer unfolds, and leaves a message for a laptop that is away', async (t) => {
  const namespace = 'folded';
  const { id } = await hub.web(namespace).openSession({ tag: '/code/a', metadata });
  const cli = await connectCli(t, hub, { namespace, auth: { sessionId: id } });
  const agentState = { requests: { r1: { tool: 'Bash', arguments: { command: 'make' }, createdAt: 1 } } };
  await cli.emitWithAck('update-state', { sid: id, expectedVersion: 1, agentState });
  const { page } = await open(t, PHONE);
  await loseConnection(page);
  await signIn(page, hub, namespace, `/sessions/${id}`);
  const chat = new Chat(page);
  await chat.request().getByText('You can answer when it is back').waitFor();
  await waitForCount(chat.composer, 0);
  await chat.openComposer();
  await chat.composer.fill('use the small data set');
  await page.getByRole('button', { name: 'Leave for laptop' }).click();
  await chat.log.getByText('Waits for laptop').waitFor();
  await cli.keepAlive(id);
  await chat.request().getByRole('button', { name: 'Approve', exact: true }).waitFor();
  await page.getByText('Waits for laptop').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Send', exact: true }).waitFor();
});
