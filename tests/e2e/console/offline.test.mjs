/** What the web console stores: unsent messages and drafts survive a reload and are sent once, and what was shown can be read offline. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PHONE, signInUrl, waitForCount, waitForEqual, waitForValue } from '../lib/browser.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { Chat, startConsole, waitForRecords } from '../lib/console.mjs';

const { hub, open, visit } = await startConsole();

/** A phone with the service worker, which a page needs to start offline. */
const OFFLINE_PHONE = { ...PHONE, serviceWorkers: /** @type {const} */ ('allow') };

const talk = { tag: '/code/c', metadata: { path: '/code/c', host: 'h', name: 'The talk' } };

const agentText = (text) => ({ role: 'agent', content: { type: 'text', text } });

/** Ends a page at once, as a phone ends an app in the background: the page gets no event, and no time to store data. */
async function killPage(page) {
  const crashed = page.waitForEvent('crash');
  const client = await page.context().newCDPSession(page);
  // The command is never answered.
  void client.send('Page.crash').catch(() => {});
  await crashed;
  await page.close();
}

/** Returns the texts of the next messages that the CLI receives. */
async function nextTexts(cli, count) {
  const texts = [];
  while (texts.length < count) texts.push((await cli.nextUpdate('new-message')).message.content.content.text);
  return texts;
}

test('messages that were written offline are sent once and in order, after the phone has ended the app', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'killed', ...talk });
  const path = `/sessions/${session.id}`;
  const { page, context } = await visit(t, 'killed', { ...OFFLINE_PHONE, path });
  const chat = new Chat(page);
  await chat.composer.waitFor();
  await page.evaluate(() => navigator.serviceWorker.ready);
  await context.setOffline(true);
  await page.getByText('You are offline. Messages are stored, and sent when you open the console online.').waitFor();
  for (const text of ['one', 'two']) await chat.send(text);
  await page.getByText('Waiting for the hub').nth(1).waitFor();
  await chat.composer.fill('half a sent');
  await waitForRecords(page, 'outbox', 2);
  await waitForRecords(page, 'draft', 1);
  await killPage(page);

  const restarted = await context.newPage();
  await restarted.goto(path);
  await restarted.getByText('You are offline.').waitFor();
  await context.setOffline(false);
  assert.deepEqual(await nextTexts(cli, 2), ['one', 'two']);
  const restartedChat = new Chat(restarted);
  await waitForValue(restartedChat.composer, 'half a sent');
  await restartedChat.send('three');
  assert.deepEqual(await nextTexts(cli, 1), ['three'], 'the first two are not sent again');
  for (const text of ['one', 'two', 'three']) await waitForCount(restartedChat.log.getByText(text, { exact: true }), 1);
  await waitForRecords(restarted, 'outbox', 0);
  await waitForRecords(restarted, 'draft', 0);
});

test('a message is stored once and no longer shown as waiting if the app was ended before the hub confirmed the message', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'unanswered', ...talk });
  const path = `/sessions/${session.id}`;
  const { page, context } = await visit(t, 'unanswered', { ...PHONE, path });
  const localIds = [];
  await context.route('**/messages', async (route) => {
    if (route.request().method() !== 'POST') return route.fallback();
    localIds.push(route.request().postDataJSON().localId);
    if (localIds.length > 1) return route.fallback();
    // The hub stores the message, but its answer is lost.
    return void (await route.fetch());
  });
  await new Chat(page).send('hello');
  assert.deepEqual(await nextTexts(cli, 1), ['hello']);
  await killPage(page);
  const restarted = await context.newPage();
  await restarted.goto(path);
  await waitForRecords(restarted, 'outbox', 0);
  const chat = new Chat(restarted);
  await chat.send('next');
  assert.deepEqual(await nextTexts(cli, 1), ['next']);
  await waitForCount(chat.log.getByText('hello'), 1);
  // The last id is the id of `next`. The restarted console sends `hello` again with the same id, unless the history arrives first
  // and shows that the hub has stored `hello`.
  assert.deepEqual([...new Set(localIds.slice(0, -1))], [localIds[0]]);
});

test('two tabs show the same unsent message, and one of them sends it', async (t) => {
  const namespace = 'tabs';
  const { session, cli } = await liveSession(t, hub, { namespace, ...talk });
  const path = `/sessions/${session.id}`;
  const { page, context } = await open(t);
  const posts = [];
  // Responses, because a request may have started before it can be intercepted.
  context.on('response', (response) => {
    const request = response.request();
    if (request.method() === 'POST' && request.url().endsWith('/messages')) posts.push(request.postDataJSON().text);
  });
  const waitUntilLive = (tab) => tab.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  await page.goto(signInUrl(hub, namespace, path));
  const other = await context.newPage();
  await other.goto(path);
  for (const tab of [page, other]) await waitUntilLive(tab);
  await context.setOffline(true);
  for (const tab of [page, other]) await tab.getByText('You are offline.').waitFor();
  await new Chat(page).send('hello');
  await other.getByText('Waiting for the hub').waitFor();
  // Both tabs are connected before the message arrives at the hub.
  await context.route('**/messages', async (route) => {
    if (route.request().method() !== 'POST') return route.fallback();
    for (const tab of [page, other]) await waitUntilLive(tab);
    return route.fallback();
  });
  await context.setOffline(false);
  assert.deepEqual(await nextTexts(cli, 1), ['hello']);
  await new Chat(other).send('from the other tab');
  assert.deepEqual(await nextTexts(cli, 1), ['from the other tab']);
  for (const tab of [page, other]) {
    for (const text of ['hello', 'from the other tab']) await waitForCount(new Chat(tab).log.getByText(text, { exact: true }), 1);
    await tab.getByText('Waiting for the hub').waitFor({ state: 'detached' });
  }
  // The browser may report a response after the page has shown its effect.
  await waitForEqual(async () => posts, ['hello', 'from the other tab']);
});

test('a tab sends the unsent messages of a tab that was closed', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'closed', ...talk });
  const path = `/sessions/${session.id}`;
  const { page, context } = await visit(t, 'closed', { path });
  const other = await context.newPage();
  await other.goto('/');
  await other.getByRole('link', { name: /The talk/ }).waitFor();
  await context.setOffline(true);
  await new Chat(page).send('hello');
  await waitForRecords(page, 'outbox', 1);
  await page.close();
  await context.setOffline(false);
  assert.deepEqual(await nextTexts(cli, 1), ['hello']);
});

test('a new tab restores drafts of messages and of answers to questions, also after all tabs were closed', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'drafts', ...talk });
  const questions = [{ question: 'Its name?' }];
  await cli.emitWithAck('update-state', {
    sid: session.id,
    expectedVersion: 1,
    agentState: { requests: { r1: { tool: 'Ask', arguments: { questions }, createdAt: 1 } } },
  });
  const path = `/sessions/${session.id}`;
  const { page, context } = await visit(t, 'drafts', { path });
  // While the agent asks, the composer is folded.
  const openComposer = (tab) => tab.getByRole('button', { name: /^(Write a message|Draft: )/ }).click();
  await openComposer(page);
  await new Chat(page).composer.fill('half a sentence');
  const answerOf = (tab) => tab.getByLabel('Answer to: Its name?');
  await answerOf(page).fill('half a name');
  const other = await context.newPage();
  await other.goto(path);
  const expectRestoredDrafts = async (tab) => {
    await openComposer(tab);
    await waitForValue(new Chat(tab).composer, 'half a sentence');
    await waitForValue(answerOf(tab), 'half a name');
  };
  await expectRestoredDrafts(other);
  for (const tab of [page, other]) await tab.close();
  const later = await context.newPage();
  await later.goto(path);
  await expectRestoredDrafts(later);
  const another = await context.newPage();
  await another.goto(path);
  await expectRestoredDrafts(another);
  await new Chat(later).send('the whole sentence');
  await waitForValue(new Chat(another).composer, '');
});

test('a draft that is written just before the page is closed is kept', async (t) => {
  const { session } = await liveSession(t, hub, { namespace: 'last-word', ...talk });
  const { page } = await visit(t, 'last-word', { path: `/sessions/${session.id}` });
  const { composer } = new Chat(page);
  await composer.waitFor();
  await composer.evaluate(async (field) => {
    // The database is so slow that the page learns of no write.
    Object.defineProperty(IDBTransaction.prototype, 'oncomplete', { set() {} });
    for (const value of ['half a sent', 'half a sentence']) {
      Object.assign(field, { value });
      field.dispatchEvent(new InputEvent('input', { bubbles: true }));
      await new Promise((resolve) => requestAnimationFrame(resolve));
    }
    location.reload();
  });
  await page.waitForFunction(() => performance.getEntriesByType('navigation').some((entry) => entry.toJSON().type === 'reload'));
  await waitForValue(composer, 'half a sentence');
});

test('a console that starts offline shows the stored list of sessions, and the time at which the list was stored', async (t) => {
  const { session } = await liveSession(t, hub, { namespace: 'listed', ...talk });
  const { page, context } = await visit(t, 'listed', OFFLINE_PHONE);
  const row = page.getByRole('link', { name: /The talk/ });
  await row.waitFor();
  await page.evaluate(() => navigator.serviceWorker.ready);
  await waitForRecords(page, 'list', 1);
  await context.setOffline(true);
  await page.close();
  const later = await context.newPage();
  await later.goto('/');
  await later.getByText(/You are offline\..* The list of sessions is shown as of \d\d:\d\d\./).waitFor();
  await later
    .locator('.list.stale')
    .getByRole('link', { name: /The talk/ })
    .waitFor();
  await hub.web('listed').request('PATCH', `/api/sessions/${session.id}`, { body: { name: 'A new name' } });
  await context.setOffline(false);
  await later
    .locator('.list:not(.stale)')
    .getByRole('link', { name: /A new name/ })
    .waitFor();
});

test('a session that was opened before can be read offline, and continues with the messages that arrived meanwhile', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'read-offline', ...talk });
  await cli.sendMessage(session.id, agentText('The first answer.'));
  const state = { requests: { r1: { tool: 'Bash', arguments: { command: 'npm test' }, createdAt: Date.now() } }, completedRequests: {} };
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: state });
  const { page, context } = await visit(t, 'read-offline', { ...OFFLINE_PHONE, path: `/sessions/${session.id}` });
  await new Chat(page).waitForText('The first answer.');
  await page.getByRole('button', { name: 'Approve' }).waitFor();
  await page.evaluate(() => navigator.serviceWorker.ready);
  // The messages, and the index.
  await waitForRecords(page, 'conversation', 2);
  await context.setOffline(true);
  await page.close();
  const later = await context.newPage();
  await later.goto(`/sessions/${session.id}`);
  await new Chat(later).waitForText('The first answer.');
  await later.getByText(/You are offline\..* The session is shown as of \d\d:\d\d\./).waitFor();
  // The request may have been answered meanwhile, and the agent may have stopped.
  await waitForCount(later.getByRole('button', { name: 'Approve' }), 0);
  await waitForCount(later.locator('.session-bar .chip'), 0);
  await cli.sendMessage(session.id, agentText('The second answer.'));
  await context.setOffline(false);
  await new Chat(later).waitForText('The second answer.');
  await later.getByRole('button', { name: 'Approve' }).waitFor();
  await waitForCount(later.locator('.message', { hasText: 'The first answer.' }), 1);
});

test('a session that was not opened before can be left offline, and takes a message that may wait for its CLI', async (t) => {
  const namespace = 'unread-offline';
  const { session, cli } = await liveSession(t, hub, { namespace, ...talk });
  const { page, context } = await visit(t, namespace, OFFLINE_PHONE);
  await page.getByRole('link', { name: /The talk/ }).waitFor();
  await page.evaluate(() => navigator.serviceWorker.ready);
  await waitForRecords(page, 'list', 1);
  await context.setOffline(true);
  await page.close();
  const later = await context.newPage();
  await later.goto(`/sessions/${session.id}`);
  await later.getByText(/You are offline\..* The session is shown as of \d\d:\d\d\./).waitFor();
  await later.getByText('The hub cannot be reached.').waitFor();
  const uncovered = { trial: true };
  await later.getByRole('button', { name: 'Try again' }).click(uncovered);
  await later.getByRole('link', { name: 'Back to sessions' }).click(uncovered);
  const chat = new Chat(later);
  await chat.send('for later');
  await waitForRecords(later, 'outbox', 1);
  const sent = context.waitForEvent('request', (request) => request.method() === 'POST' && request.url().endsWith('/messages'));
  await context.setOffline(false);
  assert.deepEqual(await nextTexts(cli, 1), ['for later']);
  assert.equal((await sent).postDataJSON().hold, true, 'the CLI may have left meanwhile');
  await chat.log.getByText('for later').waitFor();
});

test('the messages and the draft of a session that was deleted meanwhile are deleted in the browser', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'delete-stored', ...talk });
  await cli.sendMessage(session.id, agentText('The secret answer.'));
  const { page, context } = await visit(t, 'delete-stored', { ...PHONE, path: `/sessions/${session.id}` });
  await new Chat(page).waitForText('The secret answer.');
  await waitForRecords(page, 'conversation', 2);
  await new Chat(page).composer.fill('A secret draft');
  await waitForRecords(page, 'draft', 1);
  await page.close();
  await cli.emitWithAck('session-end', { sid: session.id, time: Date.now() });
  await cli.close();
  assert.equal((await hub.web('delete-stored').delete(`/api/sessions/${session.id}`)).status, 200);
  const later = await context.newPage();
  await later.goto('/');
  for (const kind of ['conversation', 'draft']) await waitForRecords(later, kind, 0);
});

test('a message to a session that was deleted elsewhere can be found, copied and discarded', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'delete-unsent', ...talk });
  const { page, context } = await visit(t, 'delete-unsent', { ...OFFLINE_PHONE, path: `/sessions/${session.id}` });
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const chat = new Chat(page);
  await chat.composer.waitFor();
  await page.evaluate(() => navigator.serviceWorker.ready);
  await context.setOffline(true);
  await page.getByText(/You are offline\./).waitFor();
  await chat.send('a long thought');
  await waitForRecords(page, 'outbox', 1);
  await cli.emitWithAck('session-end', { sid: session.id, time: Date.now() });
  await cli.close();
  assert.equal((await hub.web('delete-unsent').delete(`/api/sessions/${session.id}`)).status, 200);
  await page.goto('/');
  await context.setOffline(false);
  await page.getByRole('link', { name: 'Show it' }).click();
  await page.getByRole('alert').getByText('a long thought').waitFor();
  await page.getByRole('button', { name: 'Copy', exact: true }).click();
  await page.getByText('Copied').waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'a long thought');
  await page.getByRole('button', { name: 'Discard' }).click();
  await waitForRecords(page, 'outbox', 0);
  await page.getByRole('link', { name: 'Back to sessions' }).click();
  await page.getByRole('searchbox', { name: 'Search sessions' }).waitFor();
  await waitForCount(page.getByRole('link', { name: 'Show it' }), 0);
});

test('still stores drafts after the browser has deleted the database', async (t) => {
  const { session } = await liveSession(t, hub, { namespace: 'reopened', ...talk });
  const { page } = await visit(t, 'reopened', { path: `/sessions/${session.id}` });
  const chat = new Chat(page);
  await chat.composer.fill('half a sent');
  await waitForRecords(page, 'draft', 1);
  await page.evaluate(() => new Promise((resolve) => (indexedDB.deleteDatabase('console').onsuccess = resolve)));
  await chat.composer.fill('half a sentence');
  await waitForRecords(page, 'draft', 1);
  await page.reload();
  await waitForValue(chat.composer, 'half a sentence');
});

test('asks before a sign-out that deletes unsent messages, and deletes all unsent messages and drafts', async (t) => {
  const { session } = await liveSession(t, hub, { namespace: 'leaving', ...talk });
  const { page, context } = await visit(t, 'leaving', { path: `/sessions/${session.id}` });
  await context.route('**/messages', (route) => (route.request().method() === 'POST' ? route.abort() : route.fallback()));
  const chat = new Chat(page);
  await chat.send('hello');
  await page.getByText('Waiting for the hub').waitFor();
  await chat.composer.fill('half a sentence');
  await waitForRecords(page, 'outbox', 1);
  await waitForRecords(page, 'draft', 1);
  await page.goto('/settings');
  await page.getByRole('button', { name: 'Sign out of leaving' }).click();
  const dialog = page.getByRole('dialog', { name: 'Sign out?' });
  await dialog.getByText('A message is not sent yet. Signing out deletes it.').waitFor();
  await dialog.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Code').waitFor();
  for (const kind of ['outbox', 'draft', 'list']) await waitForRecords(page, kind, 0);
});

test('warns before a reload that loses attached files, and names the lost files after the reload', async (t) => {
  const { session } = await liveSession(t, hub, { namespace: 'files', ...talk });
  const { page } = await visit(t, 'files', { path: `/sessions/${session.id}` });
  // The upload stays in progress.
  await page.route('**/upload', () => {});
  const chat = new Chat(page);
  await chat.composer.click();
  await chat.composer.fill('see the files');
  const attach = (...names) =>
    page
      .getByLabel('Files', { exact: true })
      .setInputFiles(names.map((name) => ({ name, mimeType: 'text/plain', buffer: Buffer.from('x') })));
  await attach('plan.txt', 'notes.txt');
  await page.getByRole('list', { name: 'Files to send' }).getByText('notes.txt').waitFor();
  await waitForRecords(page, 'draft', 1);
  const dialogs = [];
  page.on('dialog', (dialog) => {
    dialogs.push(dialog.type());
    void dialog.accept();
  });
  await page.reload();
  await page.getByText('No longer attached here: plan.txt, notes.txt. Attach them again to send them.').waitFor();
  await waitForValue(chat.composer, 'see the files');
  assert.deepEqual(dialogs, ['beforeunload']);
  await attach('plan.txt');
  await page.getByText('No longer attached here: notes.txt. Attach it again to send it.').waitFor();
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByText('No longer attached').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Remove plan.txt' }).click();
  await page.reload();
  await waitForValue(chat.composer, 'see the files');
  assert.equal(dialogs.length, 1, 'the reload does not warn: the draft is stored, and no files are attached');
});

test('signs in and sends messages in a browser that blocks all storage', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'blocked', ...talk });
  const { page } = await open(t);
  await page.addInitScript(() => {
    const refuse = () => {
      throw new DOMException('The user has blocked the storage.', 'SecurityError');
    };
    for (const name of ['localStorage', 'sessionStorage', 'indexedDB', 'caches'])
      Object.defineProperty(window, name, { get: refuse, configurable: true });
    Object.defineProperty(window, 'BroadcastChannel', { value: refuse });
    Object.defineProperty(Object.getPrototypeOf(navigator.locks), 'request', { value: async () => refuse() });
    Object.defineProperty(Object.getPrototypeOf(navigator.serviceWorker), 'register', { value: async () => refuse() });
  });
  await page.goto('/');
  await page.getByLabel('Code').waitFor();
  await page.goto(signInUrl(hub, 'blocked', `/sessions/${session.id}`));
  await new Chat(page).send('hello');
  assert.deepEqual(await nextTexts(cli, 1), ['hello']);
});

test('keeps messages in memory and warns the user if the browser stores nothing', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'private', ...talk });
  const { page, context } = await open(t);
  await page.addInitScript(() => Object.defineProperty(window, 'indexedDB', { value: undefined }));
  await page.goto(signInUrl(hub, 'private', `/sessions/${session.id}`));
  const chat = new Chat(page);
  await chat.composer.waitFor();
  await context.setOffline(true);
  await page
    .getByText('You are offline. Keep this page open: messages are sent when you are back online, but this browser does not store them.')
    .waitFor();
  await chat.send('hello');
  await page.getByText('Waiting for the hub. Keep this page open: the browser cannot store the message.').waitFor();
  const warned = page.waitForEvent('dialog');
  void page.close({ runBeforeUnload: true });
  const dialog = await warned;
  assert.equal(dialog.type(), 'beforeunload');
  await dialog.dismiss();
  await context.setOffline(false);
  assert.deepEqual(await nextTexts(cli, 1), ['hello']);
});
