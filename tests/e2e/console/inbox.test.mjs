/** The inbox of the web console: what waits in all sessions, answered in place, on one or several devices. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { DESK, SMALL_PHONE, waitForCount, waitForFocus } from '../lib/browser.mjs';
import { startConsole } from '../lib/console.mjs';
import { InboxPage, minutesAgo, request, startAsking as ask } from '../lib/inbox.mjs';
import { openInPage } from '../lib/views.mjs';
import { READY } from '../lib/records.mjs';

const { hub, visit } = await startConsole();

const startAsking = (t, namespace, name, requests, metadata) => ask(t, hub, namespace, name, requests, metadata);

test('shows what waits in all sessions, oldest first, and answers requests in place', async (t) => {
  const namespace = 'inbox';
  const site = await startAsking(t, namespace, 'site', { r1: request('npm test', minutesAgo(4)) });
  const docs = await startAsking(t, namespace, 'docs', { r1: request('rm -r build', minutesAgo(9)) });
  const idle = await startAsking(t, namespace, 'idle');
  await idle.cli.sendMessage(idle.session.id, READY);
  const { page } = await visit(t, namespace, SMALL_PHONE);
  await page.clock.install();
  const inbox = new InboxPage(page);
  await inbox.section.waitFor();
  await waitForCount(inbox.items, 3);
  assert.deepEqual(await inbox.texts(), [
    'Run a command · rm -r build · 9 min · docs · on laptop',
    'Run a command · npm test · 4 min · site · on laptop',
    'Ready · now · idle · on laptop',
  ]);
  await page.waitForFunction(() => document.title === '(3) Sessions · Session gateway');
  await page.getByRole('link', { name: /^Sessions 3 waiting/ }).waitFor();
  await inbox.answer('npm test', 'Approve');
  await inbox.item('npm test').getByText('Approved').waitFor();
  assert.deepEqual([site.answered, docs.answered], [[['r1', true]], []]);
  await page.waitForFunction(() => document.title === '(2) Sessions · Session gateway');
  await inbox.skipDeparture();
  await inbox.item('npm test').waitFor({ state: 'detached' });
  await inbox.item('Ready').getByRole('button', { name: 'Dismiss idle' }).click();
  await inbox.item('on laptop').getByText('Dismissed').waitFor();
  await inbox.answer('rm -r build', 'Deny');
  await inbox.item('rm -r build').getByText('Denied').waitFor();
  assert.deepEqual(docs.answered, [['r1', false]]);
  await inbox.skipDeparture();
  await inbox.section.waitFor({ state: 'detached' });
  await page.waitForFunction(() => document.title === 'Sessions · Session gateway');
});

test('a notification of what the inbox shows is said to screen readers, and covers nothing', async (t) => {
  const asking = await startAsking(t, 'uncovered', 'site');
  const { page } = await visit(t, 'uncovered', { ...SMALL_PHONE, path: '/inbox' });
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  await asking.setRequests({ r1: request('npm test', Date.now()) });
  await page.locator('.toasts', { hasText: 'Run a command · site' }).waitFor({ state: 'attached' });
  await new InboxPage(page).item('npm test').waitFor();
  assert.equal(await page.locator('.toast').count(), 0);
});

test('a request has the same answers in the inbox and in its session, also if the agent lists its own modes', async (t) => {
  const edit = { tool: 'Edit', arguments: { file_path: 'a', old_string: 'a', new_string: 'b' }, createdAt: minutesAgo(1) };
  const modes = [{ id: 'default', name: 'Manual' }];
  const withEdits = [...modes, { id: 'acceptEdits', name: 'Accept edits' }];
  const sessions = [
    await startAsking(t, 'same', 'careful', { r1: edit }, { flavor: 'alpha', modes }),
    await startAsking(t, 'same', 'swift', { r1: edit }, { flavor: 'gamma', modes: withEdits }),
  ];
  const { page } = await visit(t, 'same');
  const inbox = new InboxPage(page);
  const answersOf = async (card) => {
    await card.getByRole('button', { name: 'More' }).click();
    const sheet = page.getByRole('dialog', { name: 'More answers' });
    await sheet.waitFor();
    const answers = await sheet.getByRole('button').allInnerTexts();
    await page.keyboard.press('Escape');
    await sheet.waitFor({ state: 'detached' });
    return answers;
  };
  const offersEdits = [];
  for (const [index, name] of ['careful', 'swift'].entries()) {
    await inbox.item(name).locator('.inbox-row').click();
    const answers = await answersOf(inbox.item(name));
    await openInPage(page, `/sessions/${sessions[index].session.id}`);
    assert.deepEqual(await answersOf(page.getByRole('main').getByRole('region', { name: 'Edit request' })), answers, name);
    offersEdits.push(answers.includes('Approve and accept edits'));
    await openInPage(page, '/');
  }
  assert.deepEqual(offersEdits, [false, true]);
});

test('the icon of the tab has the number of items', async (t) => {
  const namespace = 'icon';
  const { setRequests } = await startAsking(t, namespace, 'site', { r1: request('ls', 1) });
  const { page } = await visit(t, namespace);
  const icon = page.locator('link[rel="icon"]');
  const readIcon = () => icon.evaluate((/** @type {HTMLLinkElement} */ { href, type }) => `${type} ${href}`);
  const untilIcon = (isExpected, description) => eventually(async () => isExpected(await readIcon()), description);
  await untilIcon((text) => text.startsWith('image/png data:image/png;base64,'), 'a number');
  const one = await readIcon();
  await setRequests({ r1: request('ls', 1), r2: request('pwd', 2) });
  await untilIcon((text) => text.startsWith('image/png data:') && text !== one, 'another number');
  await setRequests({});
  await untilIcon((text) => text.startsWith('image/svg+xml data:image/svg+xml,'), 'the icon without a number');
});

test('a request that is opened offline appears when the hub can be reached, with its buttons in view', async (t) => {
  const namespace = 'reconnect';
  const others = Object.fromEntries(
    Array.from({ length: 4 }, (_, index) => [`r${index}`, request(`make part-${index}`, minutesAgo(9 - index))]),
  );
  await startAsking(t, namespace, 'site', others);
  const { answered } = await startAsking(t, namespace, 'docs', { r1: request('npm test', minutesAgo(1)) });
  const { page, context } = await visit(t, namespace, { ...SMALL_PHONE, path: '/inbox' });
  const inbox = new InboxPage(page);
  // Loads the code of the cards.
  await inbox.item('make part-0').locator('.inbox-row').click();
  await inbox.item('make part-0').getByRole('button', { name: 'Approve' }).waitFor();
  await context.setOffline(true);
  await inbox.item('npm test').locator('.inbox-row').click();
  await inbox.item('npm test').getByText('The hub cannot be reached.').waitFor();
  await context.setOffline(false);
  const approve = inbox.item('npm test').getByRole('button', { name: 'Approve' });
  await approve.waitFor();
  const isInView = () =>
    approve.evaluate((button) => {
      const { left, bottom } = button.getBoundingClientRect();
      return button.contains(document.elementFromPoint(left + 8, bottom - 3));
    });
  await eventually(isInView, 'the button in view');
  await approve.click();
  await eventually(() => answered.length === 1, 'the answer');
});

test('a request that another browser answers disappears with a notice, and the focus moves to the next request', async (t) => {
  const namespace = 'elsewhere';
  const requests = { r1: request('first', minutesAgo(3)), r2: request('second', minutesAgo(2)), r3: request('third', minutesAgo(1)) };
  const { answered } = await startAsking(t, namespace, 'site', requests);
  const [{ page }, { page: phone }] = [await visit(t, namespace, { ...DESK, path: '/inbox' }), await visit(t, namespace, SMALL_PHONE)];
  const [desk, other] = [new InboxPage(page), new InboxPage(phone)];
  await page.clock.install();
  await desk.item('second').locator('.inbox-row').click();
  await desk.item('second').getByRole('button', { name: 'Approve' }).focus();
  await other.answer('second', 'Approve');
  await desk.item('second').getByText('Answered on another device').waitFor();
  await waitForFocus(desk.item('third').locator('.inbox-row'));
  await desk.skipDeparture();
  await desk.item('second').waitFor({ state: 'detached' });
  assert.deepEqual(answered, [['r2', true]]);
  await waitForCount(desk.items, 2);
});

test('a request that is answered in its session leaves the list beside it as approved', async (t) => {
  const { session } = await startAsking(t, 'beside', 'site', { r1: request('npm test', minutesAgo(3)) });
  const { page } = await visit(t, 'beside', { ...DESK, path: `/sessions/${session.id}` });
  const item = new InboxPage(page).item('npm test');
  await item.waitFor();
  // Keeps the item, because the list is in use.
  await item.hover();
  await page.locator('main').getByRole('button', { name: 'Approve' }).click();
  await item.locator('.inbox-what', { hasText: /^(Approved|Answered)/ }).waitFor();
  assert.equal(await item.locator('.inbox-what').innerText(), 'Approved');
});

test('200 requests in 50 sessions stay usable', async (t) => {
  const namespace = 'many';
  const startNumbered = (number) => {
    // Ten sessions with 16 requests each, and forty sessions with one.
    const count = number < 10 ? 16 : 1;
    const requests = Object.fromEntries(
      Array.from({ length: count }, (_, index) => [`r${index}`, request(`make s${number}-${index}`, minutesAgo(100 - number))]),
    );
    return startAsking(t, namespace, `s${number}`, requests);
  };
  const sessions = await Promise.all(Array.from({ length: 50 }, (_, number) => startNumbered(number)));
  const { page } = await visit(t, namespace, SMALL_PHONE);
  const inbox = new InboxPage(page);
  await inbox.section.getByRole('link', { name: 'Waiting for you 200' }).waitFor();
  await waitForCount(inbox.items, 4);
  await inbox.item('s0').getByText('15 more').waitFor();
  await page.getByRole('link', { name: 'Waiting for you 200' }).click();
  await page.getByRole('heading', { name: 'Waiting for you' }).waitFor();
  const moreOfLast = page.getByRole('button', { name: '13 more in s9' });
  await moreOfLast.waitFor();
  assert.ok((await inbox.items.count()) < 60, 'only the first sessions are rendered');
  await moreOfLast.click();
  await inbox.item('make s9-15').waitFor();
  await inbox.items.last().scrollIntoViewIfNeeded();
  await eventually(async () => {
    await inbox.items.last().scrollIntoViewIfNeeded();
    return (await inbox.item('make s49-0').count()) === 1;
  }, 'the last session');
  await inbox.answer('make s49-0', 'Approve');
  await inbox.item('make s49-0').getByText('Approved').waitFor();
  assert.deepEqual(sessions[49].answered, [['r0', true]]);
});

test('nothing moves in the section or below it while a pointer is on the list', async (t) => {
  const namespace = 'still';
  const site = await startAsking(t, namespace, 'site', { r1: request('first', minutesAgo(3)), r2: request('second', minutesAgo(2)) });
  const docs = await startAsking(t, namespace, 'docs');
  const { page } = await visit(t, namespace, { ...DESK, hasClock: true });
  const inbox = new InboxPage(page);
  await waitForCount(inbox.items, 2);
  const row = page.locator('.session-row', { hasText: 'docs' });
  const places = async () => [(await inbox.item('second').boundingBox())?.y, (await row.boundingBox())?.y];
  const before = await places();
  const box = await row.boundingBox();
  await page.mouse.move(box.x + 20, box.y + 20);
  await page.mouse.down();
  await docs.setRequests({ r1: request('new', minutesAgo(1)) });
  await row.getByText('1 request pending').waitFor();
  await site.setRequests({ r2: request('second', minutesAgo(2)) });
  await inbox.item('first').getByText('Withdrawn by the agent').waitFor();
  assert.deepEqual(await places(), before);
  await waitForCount(inbox.item('new'), 0);
  await page.mouse.up();
  await inbox.skipDeparture();
  await inbox.item('new').waitFor();
  await inbox.item('first').waitFor({ state: 'detached' });
});

test('a session that became ready waits until a person opens it, once for all devices', async (t) => {
  const namespace = 'ready';
  const { session, cli } = await startAsking(t, namespace, 'site');
  const [{ page }, { page: phone }] = [await visit(t, namespace), await visit(t, namespace, SMALL_PHONE)];
  const reports = [];
  page.on('request', (sent) => sent.url().endsWith('/seen') && reports.push(sent.url()));
  await cli.sendMessage(session.id, READY);
  const [desk, other] = [new InboxPage(page), new InboxPage(phone)];
  await other.item('Ready').waitFor();
  await desk.item('Ready').getByRole('link').click();
  await page.getByRole('log', { name: 'Conversation' }).waitFor();
  await other.item('site').getByText('Seen').waitFor();
  assert.equal(reports.length, 1);
  // The session is open, so that it does not wait again.
  await cli.sendMessage(session.id, READY);
  await eventually(() => reports.length === 2, 'the second report');
  await waitForCount(desk.items, 0);
});

test('filters the list of sessions, keeps the filter in the tab, and finds sessions by their state', async (t) => {
  const namespace = 'filters';
  await startAsking(t, namespace, 'asking', { r1: request('ls', minutesAgo(1)) });
  const busy = await startAsking(t, namespace, 'busy');
  await busy.cli.keepAlive(busy.session.id, { thinking: true });
  const over = await startAsking(t, namespace, 'over');
  await over.cli.emitWithAck('session-end', { sid: over.session.id, time: Date.now() });
  await startAsking(t, namespace, 'calm');
  const { page } = await visit(t, namespace, SMALL_PHONE);
  const titles = page.locator('.session-row .session-title');
  const waitForTitles = (...names) =>
    eventually(async () => (await titles.allTextContents()).sort().join() === names.join(), `the rows ${names.join()}`);
  await waitForTitles('asking', 'busy', 'calm', 'over');
  for (const [filter, name] of [
    ['Waiting', 'asking'],
    ['Working', 'busy'],
    ['Ready', 'calm'],
    ['Ended', 'over'],
  ]) {
    await page.getByRole('button', { name: filter, exact: true }).click();
    await waitForTitles(name);
  }
  await page.reload();
  await waitForTitles('over');
  await page.getByLabel('Search sessions').fill('pending');
  await page.getByText('No ended session matches “pending”.').waitFor();
  await page.getByRole('button', { name: 'Show all sessions' }).click();
  await waitForTitles('asking');
  await page.getByLabel('Search sessions').fill('working gamma');
  await waitForTitles('busy');
});

test('says what an agent works on, and that an agent has shown no progress', async (t) => {
  const namespace = 'progress';
  const { session, cli } = await startAsking(t, namespace, 'site');
  await cli.keepAlive(session.id, { thinking: true, activity: 'npm test' });
  const { page } = await visit(t, namespace, { ...DESK, hasClock: true, path: `/sessions/${session.id}` });
  const row = page.locator('.session-row', { hasText: 'site' });
  const head = page.locator('.session-head');
  await row.getByText('npm test').waitFor();
  await head.getByText('npm test').waitFor();
  await page.clock.fastForward('04:30');
  await row.getByText('working 4 min').waitFor();
  await head.getByText('working 4 min').waitFor();
  await waitForCount(row.getByText(' ago'), 0);
  await page.clock.fastForward('07:00');
  await row.getByText('no sign of progress for 11 min').waitFor();
  await head.getByText('no sign of progress for 11 min').waitFor();
});
