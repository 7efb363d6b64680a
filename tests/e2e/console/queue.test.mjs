/** The messages that wait for an agent, on two devices, with the real hub and the example agent. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { startAgent } from '../lib/agent.mjs';
import { PHONE, waitForCount, waitForFocus, waitForValue } from '../lib/browser.mjs';
import { Chat, startConsole } from '../lib/console.mjs';
import { temporaryFolder } from '../lib/git.mjs';
import { Queue } from '../lib/queue.mjs';

const { hub, visit, startSession } = await startConsole();

const ARGS = ['--auto-approve', '--no-machine'];

/** A command that runs until the command is stopped, or a file exists. */
const WORK = 'echo started; until [ -e stop ]; do sleep 0.2; done';

/** Starts a session whose agent runs a command until it is stopped, with a queue of messages, on a desk. */
async function startQueue(t, namespace, texts, options = {}) {
  const session = await startSession(t, namespace, { args: ARGS, ...options });
  const { page, chat } = session;
  await chat.send(WORK);
  await chat.waitForText('started');
  const queue = new Queue(page);
  for (const [index, text] of texts.entries()) {
    await chat.send(text);
    await waitForCount(queue.rows, index + 1);
  }
  return { ...session, queue };
}

/** Starts a queue, and opens it on a phone, too. */
async function startQueueOnTwo(t, namespace, texts, options = {}) {
  const session = await startQueue(t, namespace, texts, options);
  const phone = await visit(t, namespace, { ...PHONE, path: `/sessions/${session.agent.sessionId}` });
  const other = new Queue(phone.page);
  await other.waitForTexts(...texts);
  return { ...session, phone, phoneChat: new Chat(phone.page), other };
}

test('edits, moves, cancels and sends queued messages, on two devices', async (t) => {
  const { page, chat, queue, phoneChat, other } = await startQueueOnTwo(t, 'queue', ['echo a', 'echo b', 'echo c', 'echo d']);
  assert.deepEqual(await chat.said(), [WORK]);

  const row = await other.open('echo b');
  await row.getByRole('button', { name: 'Edit' }).click();
  await other.region.getByRole('textbox', { name: 'Queued message' }).fill('echo edited');
  await other.region.getByRole('button', { name: 'Save' }).click();
  await queue.waitForTexts('echo a', 'echo edited', 'echo c', 'echo d');
  await queue.row('echo edited').getByText('edited', { exact: true }).waitFor();

  const canceled = await queue.open('echo c');
  await canceled.getByRole('button', { name: 'Cancel' }).click();
  await other.waitForTexts('echo a', 'echo edited', 'echo d');
  await waitForValue(chat.composer, 'echo c');
  await phoneChat.log.getByText('Canceled: the agent did not receive it.').waitFor();

  await queue.row('echo d').getByRole('button', { name: 'Move' }).focus();
  await page.keyboard.press('Alt+ArrowUp');
  await other.waitForTexts('echo a', 'echo d', 'echo edited');
  await waitForFocus(queue.row('echo d').getByRole('button', { name: 'Move' }));
  await queue.region.getByText('Moved to place 2 of 3').waitFor();

  await other.row('echo edited').getByRole('button', { name: 'Stop and send now' }).click();
  for (const each of [chat, phoneChat]) {
    await each.waitForText('Stopped, because another message is sent now.');
    await each.log.getByText('Edited while it was queued.').waitFor();
    await waitForCount(each.log.locator('summary', { hasText: 'echo a' }), 1);
    await waitForCount(each.log.locator('summary', { hasText: 'echo d' }), 1);
    // Messages above the screen are not rendered.
    const lastSaid = async () => (await each.said()).slice(-3).join();
    await eventually(async () => (await lastSaid()) === 'echo edited,echo a,echo d', 'the messages in the order in which they were sent');
  }
  await waitForCount(queue.rows, 0);
});

test('queued messages are edited and canceled with the keyboard alone, and the focus stays in the queue', async (t) => {
  const { page, chat, queue } = await startQueue(t, 'keyboard', ['echo a', 'echo b']);
  const summary = (text) => queue.row(text).locator('.queued-summary');
  await summary('echo a').focus();
  await page.keyboard.press('Enter');
  await queue.row('echo a').getByRole('button', { name: 'Edit' }).press('Enter');
  const field = queue.region.getByRole('textbox', { name: 'Queued message' });
  await waitForFocus(field);
  await page.keyboard.press('Escape');
  await waitForFocus(summary('echo a'));
  await queue.row('echo a').getByRole('button', { name: 'Edit' }).press('Enter');
  await field.fill('echo edited');
  await page.keyboard.press('Control+Enter');
  await queue.waitForTexts('echo edited', 'echo b');
  await waitForFocus(summary('echo edited'));
  await queue.row('echo edited').getByRole('button', { name: 'Cancel' }).press('Enter');
  await queue.waitForTexts('echo b');
  await waitForFocus(summary('echo b'));
  await page.keyboard.press('Enter');
  await queue.row('echo b').getByRole('button', { name: 'Cancel' }).press('Enter');
  await waitForCount(queue.rows, 0);
  await waitForFocus(chat.composer);
});

test('moves a message by its handle, highlights its row only while it is dragged, and stops with the queue', async (t) => {
  const { page, chat, queue, other } = await startQueueOnTwo(t, 'drag', ['echo a', 'echo b', 'echo c']);
  const handle = await queue.row('echo c').getByRole('button', { name: 'Move' }).boundingBox();
  const target = await queue.row('echo a').boundingBox();
  await page.mouse.move(handle.x + handle.width / 2, handle.y + handle.height / 2);
  await page.mouse.down();
  await page.mouse.move(target.x + 20, target.y + 4, { steps: 4 });
  const dragged = queue.region.locator('[data-dragged="true"]');
  await waitForCount(dragged, 1);
  await page.mouse.up();
  await other.waitForTexts('echo c', 'echo a', 'echo b');
  await waitForCount(dragged, 0);
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await waitForCount(other.rows, 0);
  await waitForCount(chat.log.getByText('Canceled: the agent did not receive it.'), 3);
});

test('the first of two changes wins, and a text that was being edited is kept', async (t) => {
  const { chat, queue, phone, phoneChat, other } = await startQueueOnTwo(t, 'first-wins', ['echo a']);
  const row = await other.open('echo a');
  await row.getByRole('button', { name: 'Edit' }).click();
  await other.region.getByRole('textbox', { name: 'Queued message' }).fill('echo mine');
  await queue.row('echo a').getByRole('button', { name: 'Stop and send now' }).click();
  await chat.waitForText('Exit code 0.');
  await phone.page.getByText('Your text is in the composer.').waitFor();
  await waitForValue(phoneChat.composer, 'echo mine');
});

test('the queue survives a crash of the agent, and each message runs once', async (t) => {
  const home = temporaryFolder(t);
  const { repository, agent, chat, queue, other } = await startQueueOnTwo(t, 'crash', ['echo typo', 'echo no >> log'], { home });
  const row = await other.open('echo no');
  await row.getByRole('button', { name: 'Cancel' }).click();
  await other.waitForTexts('echo typo');
  await (await other.open('echo typo')).getByRole('button', { name: 'Edit' }).click();
  await other.region.getByRole('textbox', { name: 'Queued message' }).fill('echo ran >> log');
  await other.region.getByRole('button', { name: 'Save' }).click();
  await queue.waitForTexts('echo ran >> log');
  await agent.kill();
  repository.write('stop', '');
  await startAgent(t, hub, { dir: repository.folder, home, namespace: 'crash', args: ARGS });
  await waitForCount(queue.rows, 0);
  await chat.waitForText('Edited while it was queued.');
  await chat.waitForText('Exit code 0.');
  assert.deepEqual(await chat.said(), [WORK, 'echo no >> log', 'echo ran >> log']);
  assert.equal(readFileSync(path.join(repository.folder, 'log'), 'utf8'), 'ran\n');
});
