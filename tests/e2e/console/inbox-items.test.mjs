/** The items of the inbox: the keys, long requests, questions and failures, and how the number of items is shown elsewhere. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { DESK, signInUrl, SMALL_PHONE, waitForCount, waitForEqual, waitForFocus } from '../lib/browser.mjs';
import { startConsole } from '../lib/console.mjs';
import { InboxPage, minutesAgo, request, startAsking } from '../lib/inbox.mjs';
import { READY } from '../lib/records.mjs';

const { hub, open, visit } = await startConsole();

/** Opens the inbox of a namespace on a desk. */
async function openInbox(t, namespace, /** @type {Parameters<typeof visit>[2]} */ options = DESK) {
  const opened = await visit(t, namespace, { ...options, path: '/inbox' });
  const inbox = new InboxPage(opened.page);
  await inbox.items.first().waitFor();
  return { ...opened, inbox, row: (text) => inbox.item(text).locator('.inbox-row') };
}

test('j and k move between the items of the inbox, and never leave the inbox', async (t) => {
  const namespace = 'moves';
  const commands = ['first', 'second', 'third', 'fourth', 'fifth'];
  const requests = Object.fromEntries(commands.map((command, index) => [`r${index}`, request(command, minutesAgo(9 - index))]));
  await startAsking(t, hub, namespace, 'site', requests);
  const idle = await startAsking(t, hub, namespace, 'idle');
  await idle.cli.sendMessage(idle.session.id, READY);
  const { page, inbox, row } = await openInbox(t, namespace);
  await row('Ready').waitFor();
  const targets = [row('first'), row('second'), row('third'), inbox.page.getByRole('button', { name: '2 more in site' }), row('Ready')];
  for (const target of [...targets, row('Ready')]) {
    await page.keyboard.press('j');
    await waitForFocus(target);
  }
  for (const target of [...targets.slice(0, -1).reverse(), row('first')]) {
    await page.keyboard.press('k');
    await waitForFocus(target);
  }
  assert.equal(new URL(page.url()).pathname, '/inbox');
});

test('the keys answer the focused request of the inbox after it was opened, and no other request', async (t) => {
  const namespace = 'keys';
  const requests = { r1: request('first', minutesAgo(3)), r2: request('second', minutesAgo(2)), r3: request('third', minutesAgo(1)) };
  const { answered } = await startAsking(t, hub, namespace, 'site', requests);
  const idle = await startAsking(t, hub, namespace, 'idle');
  await idle.cli.sendMessage(idle.session.id, READY);
  const { page, inbox, row } = await openInbox(t, namespace, { ...DESK, hasClock: true });
  await row('Ready').waitFor();
  await row('first').click();
  await inbox.waitForKeys('first');
  await page.keyboard.press('j');
  await waitForFocus(row('second'));
  // The first press opens the focused request. A quick second press has no effect.
  await page.evaluate(async () => {
    for (let press = 0; press < 2; press += 1) {
      document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', bubbles: true, cancelable: true }));
      await new Promise(requestAnimationFrame);
    }
  });
  await inbox.waitForKeys('second');
  await waitForCount(inbox.item('first').locator('.inbox-card'), 0);
  assert.deepEqual(answered, []);
  await page.keyboard.press('a');
  await inbox.item('second').getByText('Approved').waitFor();
  await row('third').focus();
  await page.keyboard.press('d');
  await inbox.waitForKeys('third');
  // The focus is on an item without a request, beside an open request.
  await row('Ready').focus();
  for (const key of ['a', 'd', '.']) await page.keyboard.press(key);
  await waitForCount(page.getByRole('dialog'), 0);
  await page.keyboard.press('k');
  await waitForFocus(row('third'));
  await page.keyboard.press('.');
  await page.getByRole('dialog', { name: 'More answers' }).waitFor();
  await page.keyboard.press('Escape');
  await inbox.waitForKeys('third');
  await page.keyboard.press('d');
  await inbox.item('third').getByText('Denied').waitFor();
  assert.deepEqual(answered, [
    ['r2', true],
    ['r3', false],
  ]);
});

test('above the list of sessions, a key opens the focused request before it answers, and leaves the open request alone', async (t) => {
  const namespace = 'section-keys';
  const requests = { r1: request('first', minutesAgo(3)), r2: request('second', minutesAgo(2)) };
  const { answered } = await startAsking(t, hub, namespace, 'site', requests);
  const { page } = await visit(t, namespace, { ...DESK, hasClock: true });
  const inbox = new InboxPage(page);
  await inbox.item('first').locator('.inbox-row').click();
  await inbox.waitForKeys('first');
  await inbox.item('second').locator('.inbox-row').focus();
  await page.keyboard.press('a');
  await inbox.waitForKeys('second');
  assert.deepEqual(answered, []);
  await page.keyboard.press('a');
  await inbox.item('second').getByText('Approved').waitFor();
  assert.deepEqual(answered, [['r2', true]]);
});

test('an inbox that cannot be loaded says so, keeps what is known, and is loaded again by the button', async (t) => {
  const namespace = 'fails';
  const asking = await startAsking(t, hub, namespace, 'site', { r1: request('npm test', minutesAgo(1)) });
  const { page } = await open(t, DESK);
  const answerError = (route) => route.fulfill({ status: 500, json: { error: 'The database failed.', code: 'internal' } });
  await page.route('**/api/inbox*', answerError);
  await page.goto(signInUrl(hub, namespace, '/inbox'));
  const inbox = new InboxPage(page);
  const retry = page.getByRole('alert').getByRole('button', { name: 'Try again' });
  await retry.waitFor();
  // The list of sessions says that a request waits.
  await inbox.items.first().waitFor();
  await waitForCount(page.getByText('Nothing waits for you'), 0);
  await page.unroute('**/api/inbox*', answerError);
  await retry.click();
  await inbox.item('npm test').waitFor();
  await page.clock.install();
  await asking.setRequests({});
  await inbox.item('npm test').getByText('Withdrawn by the agent').waitFor();
  await inbox.skipDeparture();
  await page.getByText('Nothing waits for you').waitFor();
});

test('a question is answered in the inbox', async (t) => {
  const namespace = 'question';
  const questions = [{ question: 'Which shape?', options: ['Round', 'Square'] }];
  const ask = { tool: 'Ask', arguments: { questions }, createdAt: minutesAgo(1) };
  const { cli, session } = await startAsking(t, hub, namespace, 'site', { r1: ask });
  const answers = [];
  await cli.serve(`${session.id}:permission`, (answer) => (answers.push(answer), { success: true }));
  const { inbox, row } = await openInbox(t, namespace, SMALL_PHONE);
  await row('Which shape?').click();
  const card = inbox.item('Which shape?');
  const send = card.getByRole('button', { name: 'Answer', exact: true });
  await send.waitFor();
  await waitForEqual(() => send.isDisabled(), true);
  await card.getByText('Square').click();
  await send.click();
  await eventually(() => answers.length === 1, 'the answer');
  assert.deepEqual([answers[0].id, answers[0].approved, Object.values(answers[0].answers)], ['r1', true, [['Square']]]);
});

test('a session that failed shows its error in the inbox until it is dismissed', async (t) => {
  const namespace = 'failed';
  const metadata = { path: '/code/site', host: 'laptop', name: 'site', lifecycleState: 'failed', agentError: 'npx cannot run the agent.' };
  await hub.web(namespace).openSession({ tag: '/code/site', metadata });
  const { page, inbox } = await openInbox(t, namespace, SMALL_PHONE);
  await inbox.item('Failed').getByText('npx cannot run the agent.').waitFor();
  await page.clock.install();
  await page.getByRole('button', { name: 'Dismiss site' }).click();
  await inbox.item('site').getByText('Dismissed').waitFor();
  await inbox.skipDeparture();
  await waitForCount(inbox.items, 0);
  await page.reload();
  await page.getByRole('heading', { name: 'Nothing waits for you' }).waitFor();
});

test('the icon of the installed app has the number of items', async (t) => {
  const namespace = 'badge';
  const { setRequests } = await startAsking(t, hub, namespace, 'site', { r1: request('ls', minutesAgo(2)) });
  const { page } = await open(t);
  await page.addInitScript(() => {
    Object.assign(navigator, { setAppBadge: async (count) => void Object.assign(window, { badge: count }) });
  });
  await page.goto(signInUrl(hub, namespace));
  const waitForBadge = (count) => page.waitForFunction((expected) => Object(window).badge === expected, count);
  await waitForBadge(1);
  await setRequests({ r1: request('ls', minutesAgo(2)), r2: request('pwd', minutesAgo(1)) });
  await waitForBadge(2);
  await setRequests({});
  await waitForBadge(0);
});

test('the inbox is fetched when the page starts, and then kept current by events', async (t) => {
  const namespace = 'events';
  const ls = request('ls', minutesAgo(3));
  const pwd = request('pwd', minutesAgo(2));
  const { setRequests } = await startAsking(t, hub, namespace, 'site', { r1: ls });
  const { page } = await open(t);
  await page.clock.install();
  const fetched = [];
  page.on('request', (sent) => new URL(sent.url()).pathname === '/api/inbox' && fetched.push(sent.url()));
  await page.goto(signInUrl(hub, namespace, '/inbox'));
  const inbox = new InboxPage(page);
  await inbox.item('ls').waitFor();
  await setRequests({ r1: ls, r2: pwd });
  await inbox.item('pwd').waitFor();
  // On a slow network, the page fetches the inbox before the event stream has started, and again after the start.
  const fetchedAtStart = fetched.length;
  assert.ok(fetchedAtStart <= 2, `${fetchedAtStart} fetches`);
  await page.clock.fastForward('10:00');
  await setRequests({ r1: ls, r2: pwd, r3: request('make', minutesAgo(1)) });
  await inbox.item('make').waitFor();
  assert.equal(fetched.length, fetchedAtStart);
});

test('in a session on a phone, the way back says how many items wait elsewhere', async (t) => {
  const namespace = 'back';
  const { session } = await startAsking(t, hub, namespace, 'site', { r1: request('ls', minutesAgo(3)) });
  const docs = await startAsking(t, hub, namespace, 'docs', { r1: request('pwd', minutesAgo(2)), r2: request('make', minutesAgo(1)) });
  const { page } = await visit(t, namespace, { ...SMALL_PHONE, path: `/sessions/${session.id}` });
  const back = page.getByRole('link', { name: /^Back to sessions/ });
  await page.getByRole('link', { name: 'Back to sessions, 2 waiting' }).waitFor();
  assert.equal((await back.innerText()).trim(), '2');
  await docs.setRequests({});
  await page.getByRole('link', { name: 'Back to sessions', exact: true }).waitFor();
});

test('the list of the keys names the keys of requests and of the inbox', async (t) => {
  const namespace = 'help';
  await startAsking(t, hub, namespace, 'site', { r1: request('ls', minutesAgo(1)) });
  const { page } = await openInbox(t, namespace);
  await page.keyboard.press('?');
  const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await help.waitFor();
  const keys = await help.locator('kbd').allTextContents();
  for (const key of ['a', 'd', '.', 'j', 'k', 'i']) assert.ok(keys.includes(key), key);
});
