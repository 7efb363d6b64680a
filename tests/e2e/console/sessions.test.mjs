/** The session list of the web console: groups, activity, search and shortcuts. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { DESK, PHONE, positionOf, SMALL_PHONE, waitForCount, waitForEqual, waitForMatch } from '../lib/browser.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { Chat, startConsole } from '../lib/console.mjs';

const { hub, visit } = await startConsole();

test('groups sessions by directory and machine, and updates the activity of sessions', async (t) => {
  const namespace = 'doing';
  const { session, cli } = await liveSession(t, hub, {
    namespace,
    tag: 'one',
    metadata: { path: '/home/ada/site', host: 'laptop', name: 'The site', flavor: 'gamma' },
  });
  const web = hub.web(namespace);
  const worktree = { basePath: '/home/ada/site', branch: 'fix-links', name: 'fix-links' };
  await web.openSession({
    tag: 'two',
    metadata: { path: '/home/ada/site/.worktrees/fix-links', host: 'laptop', name: 'The links', worktree },
  });
  await web.openSession({ tag: 'three', metadata: { path: '/home/ada/site', host: 'server', name: 'The server' } });
  const { page } = await visit(t, namespace);
  const group = (host) => page.locator('.group', { has: page.getByRole('heading', { name: new RegExp(`~/site.*${host}`) }) });
  await group('server')
    .getByRole('link', { name: /The server.*ended/ })
    .waitFor();
  await waitForCount(group('laptop').getByRole('link'), 2);
  await group('laptop')
    .getByRole('link', { name: /The links.*ended.*fix-links/ })
    .waitFor();

  const waitForSiteRow = (text) =>
    group('laptop')
      .getByRole('link', { name: new RegExp(`The site.*${text}`) })
      .waitFor();
  await waitForSiteRow('ready.*[Gg]amma');
  await cli.keepAlive(session.id, { thinking: true });
  await waitForSiteRow('working');
  const request = { tool: 'Bash', arguments: { command: 'ls' }, createdAt: 1 };
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: { requests: { a: request, b: request } } });
  await waitForSiteRow('2 requests pending');
  await page.waitForFunction(() => document.title === '(2) Sessions · Session gateway');
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 2, agentState: { requests: {} } });
  const todos = [
    { content: 'Look', status: 'completed' },
    { content: 'Mend', status: 'in_progress' },
  ];
  await cli.sendMessage(session.id, {
    role: 'agent',
    content: {
      type: 'output',
      data: { type: 'assistant', message: { content: [{ type: 'tool_use', id: 't', name: 'TodoWrite', input: { todos } }] } },
    },
  });
  await page.getByRole('img', { name: '1 of 2 todos done' }).waitFor();
  await cli.emitWithAck('session-end', { sid: session.id, time: Date.now() });
  await waitForSiteRow('ended');
});

test('a session that is pinned on one page is at the top of the list on all pages, until it is unpinned', async (t) => {
  const namespace = 'pinned';
  for (const name of ['The old one', 'The new one']) {
    await hub.web(namespace).openSession({ tag: name, metadata: { path: '/code/a', host: 'laptop', name } });
  }
  const [{ page }, { page: phone }] = [await visit(t, namespace), await visit(t, namespace)];
  const firstHeading = (from) => from.locator('.group-head').first();
  await page.getByRole('link', { name: /The old one/ }).click();
  await page.getByRole('button', { name: 'Session actions' }).click();
  await page.getByRole('menuitem', { name: 'Pin to the top' }).click();
  for (const shown of [page, phone]) {
    await firstHeading(shown).getByText('Pinned', { exact: true }).waitFor();
    await shown
      .locator('.group')
      .first()
      .getByRole('link', { name: /The old one.*\/code\/a.*laptop/ })
      .waitFor();
  }
  await phone.reload();
  await firstHeading(phone).getByText('Pinned', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Session actions' }).click();
  await page.getByRole('menuitem', { name: 'Unpin' }).click();
  for (const shown of [page, phone]) await firstHeading(shown).getByText('/code/a').waitFor();
});

test('a colour that is chosen with the keyboard is a dot in the list on all pages, until it is removed', async (t) => {
  const namespace = 'colour';
  const web = hub.web(namespace);
  const session = await web.openSession({ tag: 'a', metadata: { path: '/code/a', host: 'laptop', name: 'The site' } });
  const [{ page }, { page: phone }] = [await visit(t, namespace, { ...PHONE }), await visit(t, namespace)];
  await page.getByRole('link', { name: /The site/ }).click();
  const choose = async (from, to) => {
    await page.getByRole('button', { name: 'Session actions' }).click();
    await page.getByRole('menuitem', { name: 'Colour' }).press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Colour of the session' });
    await dialog.getByRole('radio', { name: from, checked: true }).press(to);
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
  };
  const dots = () =>
    phone
      .locator('.session-row')
      .getByRole('img')
      .evaluateAll((all) => all.map((dot) => [dot.ariaLabel, dot.style.color, getComputedStyle(dot).webkitTextStrokeWidth]));
  await choose('None', 'ArrowDown');
  await waitForEqual(dots, [['Colour: red', 'rgb(217, 58, 58)', '1px']]);
  await phone.reload();
  await waitForEqual(dots, [['Colour: red', 'rgb(217, 58, 58)', '1px']]);
  await choose('Colour: red', 'ArrowUp');
  await waitForEqual(dots, []);
  await web.patch(`/api/sessions/${session.id}`, { color: '#0A7bff' });
  await waitForEqual(dots, [['Colour: #0A7bff', 'rgb(10, 123, 255)', '1px']]);
  await web.patch(`/api/sessions/${session.id}`, { color: 'red;background:url(//x.example)' });
  await waitForEqual(dots, []);
});

/** A list is in use for this long after the last movement of a pointer on it. */
const IN_USE_MS = 3_000;

test('keeps the order of the list while a pointer is on the list', async (t) => {
  const namespace = 'order';
  const { cli, session } = await liveSession(t, hub, {
    namespace,
    tag: '/code/a',
    metadata: { path: '/code/a', host: 'laptop', name: 'The first' },
  });
  const later = await hub.web(namespace).openSession({ tag: '/code/b', metadata: { path: '/code/b', host: 'laptop', name: 'The second' } });
  const { page } = await visit(t, namespace, { ...DESK, hasClock: true });
  const rows = page.locator('.session-row .session-title');
  const waitForOrder = (...names) => eventually(async () => (await rows.allTextContents()).join() === names.join(), names.join());
  await waitForOrder('The first', 'The second');
  // A pointer that keeps moving.
  await page.getByRole('link', { name: /The second/ }).evaluate((row) => {
    const move = () => row.dispatchEvent(new PointerEvent('pointermove', { bubbles: true }));
    move();
    const timer = setInterval(move, 100);
    window.stopPointer = () => clearInterval(timer);
  });
  await cli.keepAlive(later.id);
  await page.getByRole('link', { name: /The second.*ready/ }).waitFor();
  await waitForEqual(() => rows.allTextContents(), ['The first', 'The second'], 'the row under the pointer stays');
  await page.evaluate(() => window.stopPointer());
  await page.clock.runFor(IN_USE_MS);
  // The second session is the newer one of two active sessions.
  await waitForOrder('The second', 'The first');
  const box = await page.getByRole('link', { name: /The first/ }).boundingBox();
  await page.mouse.move(box.x + 5, box.y + 5);
  await page.mouse.down();
  await cli.emitWithAck('session-end', { sid: later.id, time: Date.now() });
  await cli.keepAlive(session.id, { thinking: true });
  await page.getByRole('link', { name: /The first.*working/ }).waitFor();
  await page.getByRole('link', { name: /The second.*ended/ }).waitFor();
  await waitForEqual(() => rows.allTextContents(), ['The second', 'The first']);
  await page.mouse.up();
  await page.clock.runFor(IN_USE_MS);
  await waitForOrder('The first', 'The second');
});

test('keeps the order of the list while a finger is on the list and scrolls it', async (t) => {
  const namespace = 'touched';
  const { cli, session } = await liveSession(t, hub, {
    namespace,
    tag: '/code/a',
    metadata: { path: '/code/a', host: 'laptop', name: 'The first' },
  });
  const web = hub.web(namespace);
  const later = await web.openSession({ tag: '/code/b', metadata: { path: '/code/b', host: 'laptop', name: 'The second' } });
  for (let number = 0; number < 12; number += 1)
    await web.openSession({ tag: `/code/c${number}`, metadata: { path: '/code/c', host: 'h' } });
  await web.patch(`/api/sessions/${later.id}`, { name: 'The second' });
  const { page } = await visit(t, namespace, { ...SMALL_PHONE, hasClock: true });
  const rows = page.locator('.session-row .session-title');
  const readFirst = async () => (await rows.allTextContents()).filter((name) => /^The/.test(name)).join();
  const waitForOrder = (names) => eventually(async () => (await readFirst()) === names, names);
  await waitForOrder('The first,The second');
  const touch = (type) => rows.first().dispatchEvent(type, { pointerType: 'touch', bubbles: true });
  await touch('pointerdown');
  await cli.keepAlive(later.id);
  await page.getByRole('link', { name: /The second.*ready/ }).waitFor();
  const list = page.getByRole('region', { name: 'Sessions by directory' });
  await list.evaluate((element) => {
    const scrolled = new Promise((done) => element.addEventListener('scroll', () => done(true), { once: true }));
    element.scrollTo(0, 200);
    return scrolled;
  });
  assert.equal(await list.evaluate((element) => element.scrollTop), 200);
  await cli.keepAlive(session.id, { thinking: true });
  await page.getByRole('link', { name: /The first.*working/ }).waitFor();
  await cli.emitWithAck('session-end', { sid: session.id, time: Date.now() });
  await page.getByRole('link', { name: /The first.*ended/ }).waitFor();
  assert.equal(await readFirst(), 'The first,The second', 'the rows below the finger stay');
  // The browser cancels a touch that scrolls.
  await touch('pointercancel');
  await page.clock.runFor(IN_USE_MS);
  await waitForOrder('The second,The first');
});

test('adds, finds and removes sessions without a reload', async (t) => {
  const { page } = await visit(t, 'live');
  await page.getByRole('heading', { name: 'No sessions yet' }).waitFor();
  const web = hub.web('live');
  const names = ['Write the parser', 'Draw the map'];
  const sessions = [];
  for (const [index, name] of names.entries())
    sessions.push(await web.openSession({ tag: `/code/${index}`, metadata: { path: `/code/${index}`, host: 'laptop', name } }));
  for (const name of names) await page.getByRole('link', { name: new RegExp(name) }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('parser laptop');
  await page.getByRole('link', { name: /Draw the map/ }).waitFor({ state: 'detached' });
  await page.getByRole('searchbox', { name: 'Search sessions' }).fill('nothing like it');
  await page.getByText('No session matches').waitFor();
  await page.getByRole('searchbox', { name: 'Search sessions' }).fill('');
  await web.delete(`/api/sessions/${sessions[1].id}`);
  await page.getByRole('link', { name: /Draw the map/ }).waitFor({ state: 'detached' });
  await page.getByRole('link', { name: /Write the parser/ }).click();
  await page.getByText('No messages yet').waitFor();
  await web.delete(`/api/sessions/${sessions[0].id}`);
  await page.getByText('This session was deleted.').waitFor();
});

test('shortcuts move between sessions and their views', async (t) => {
  const web = hub.web('keys');
  const { page: emptyPage } = await visit(t, 'keys');
  await emptyPage.getByRole('heading', { name: 'No sessions yet' }).waitFor();
  await emptyPage.keyboard.press('j');
  await emptyPage.keyboard.press('?');
  const help = emptyPage.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await help.getByText('Search sessions').waitFor();
  // In a dialog, the keys have no effect.
  await emptyPage.keyboard.press('n');
  await emptyPage.keyboard.press('Escape');
  await help.waitFor({ state: 'detached' });
  assert.equal(new URL(emptyPage.url()).pathname, '/');

  for (const name of ['First', 'Second']) await web.openSession({ tag: `/code/${name}`, metadata: { path: '/code', host: 'h', name } });
  const { page } = await visit(t, 'keys');
  const names = page.getByRole('complementary').locator('.session-title');
  await names.nth(1).waitFor();
  const [first, second] = await names.allTextContents();
  const waitForHeading = (name) => page.getByRole('heading', { name, level: 1 }).waitFor();
  await page.keyboard.press('j');
  await waitForHeading(first);
  await page.keyboard.press('j');
  await waitForHeading(second);
  await page.keyboard.press('k');
  await waitForHeading(first);
  // With a search, the keys move between the sessions that the list shows.
  const search = page.getByRole('searchbox', { name: 'Search sessions' });
  await search.fill(second);
  await waitForCount(names, 1);
  await search.blur();
  await page.keyboard.press('k');
  await waitForHeading(second);
  await search.fill('');
  await waitForCount(names, 2);
  await search.blur();
  await page.keyboard.press('k');
  await waitForHeading(first);
  for (const [key, name] of [
    ['2', 'Changes'],
    ['3', 'Files'],
    ['1', 'Chat'],
  ]) {
    await page.keyboard.press(key);
    await page.locator('.tabs [aria-current="page"]', { hasText: name }).waitFor();
  }
  await page.keyboard.press('n');
  await waitForHeading('New session');
  await page.keyboard.press('i');
  await page.waitForURL('**/inbox');
});

test('on a phone, the focus moves to the opened session and back to its row', async (t) => {
  const web = hub.web('focus');
  for (const name of ['First', 'Second']) await web.openSession({ tag: `/code/${name}`, metadata: { path: '/code', host: 'h', name } });
  const { page } = await visit(t, 'focus', PHONE);
  const row = page.getByRole('link', { name: /First/ });
  await row.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'First', level: 1 }).waitFor();
  await page.waitForFunction(() => document.activeElement?.id === 'main');
  await page.waitForFunction(() => document.title === 'First · Session gateway');
  await page.getByRole('link', { name: 'Back to sessions' }).focus();
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('First'));
});

/** Stores copies of the only session of a namespace, with numbers from 1 on: much faster than a request for each session. */
async function copySession(namespace, count) {
  const database = await hub.database();
  const row = await database.prepare('SELECT * FROM sessions WHERE namespace = ?').bind(namespace).first();
  const changed = {
    id: "printf('%08d', number) || substr(id, 9)",
    tag: "'/code/' || number",
    metadata: "json_set(metadata, '$.name', 'Session ' || number, '$.path', '/code/' || number % 40)",
    updated_at: 'updated_at + number',
  };
  const columns = Object.keys(row);
  await database
    .prepare(
      `WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < ${count})
       INSERT INTO sessions (${columns}) SELECT ${columns.map((name) => changed[name] ?? name)} FROM sessions, numbers WHERE namespace = ?`,
    )
    .bind(namespace)
    .run();
  // The object reads its sessions again.
  await hub.hibernate(namespace);
}

test('lists and searches more sessions than fit one page of the hub’s list', async (t) => {
  const web = hub.web('many');
  const count = 1100;
  await web.openSession({ tag: '/code/0', metadata: { path: '/code/0', host: 'h', name: 'Session 0' } });
  await copySession('many', count - 1);
  const { page } = await visit(t, 'many', DESK);
  await page.getByRole('link', { name: /Session 1099/ }).waitFor();
  const rows = page.locator('.session-row');
  const more = page.getByRole('button', { name: 'Show more sessions' });
  await more.waitFor({ state: 'attached' });
  await waitForCount(rows, 1000);
  await more.scrollIntoViewIfNeeded();
  await waitForCount(rows, count);
  await more.waitFor({ state: 'detached' });
  await page.getByRole('searchbox', { name: 'Search sessions' }).fill('session 42');
  // The numbers with `42`: 42, 142 to 1042, and 420 to 429.
  await waitForCount(rows, 21);
  await page.getByRole('link', { name: /Session 42\b/ }).click();
  await new Chat(page).page.getByText('No messages yet').waitFor();
});

test('on a phone, a long list that is shown again renders the rows of the screen first, at its scroll position', async (t) => {
  await hub.web('again').openSession({ tag: '/code/0', metadata: { path: '/code/0', host: 'h', name: 'Session 0' } });
  await copySession('again', 199);
  const { page } = await visit(t, 'again', PHONE);
  const rows = page.locator('.session-row');
  const goBack = async () => {
    await page.getByText('No messages yet').waitFor();
    /** @type {number} */
    const first = await page.evaluate(
      () =>
        new Promise((resolve) => {
          new MutationObserver((_, observer) => {
            const { length } = document.querySelectorAll('.session-row');
            if (length === 0) return;
            observer.disconnect();
            resolve(length);
          }).observe(document.body, { childList: true, subtree: true });
          history.back();
        }),
    );
    await waitForCount(rows, 200);
    return first;
  };
  await waitForCount(rows, 200);
  await rows.first().tap();
  assert.ok((await goBack()) < 50);
  const list = page.getByRole('region', { name: 'Sessions by directory' });
  await list.evaluate((element) => element.scrollTo(0, 3000));
  const opened = page.locator('.session-row:hover');
  await list.hover();
  const name = await opened.innerText();
  const top = await positionOf(opened);
  await opened.tap();
  const count = await goBack();
  assert.ok(count > 40 && count < 120, `${count} rows`);
  await waitForEqual(() => positionOf(rows.filter({ hasText: name.split('\n')[0] })), top);
});

test('a session whose agent cannot be started is shown as failed with the reason, until the agent runs', async (t) => {
  const namespace = 'failed';
  const metadata = {
    path: '/code/f',
    host: 'laptop',
    name: 'The talk',
    lifecycleState: 'failed',
    agentError: `Claude Code did not start: npx cannot run it: No matching version found.\u202E\n${'Check the network. '.repeat(1000)}`,
  };
  const { session, cli } = await liveSession(t, hub, { namespace, tag: '/code/f', metadata });
  const { page } = await visit(t, namespace, { path: `/sessions/${session.id}` });
  const row = page.getByRole('link', { name: /The talk.*failed/ });
  await row.waitFor();
  const bar = page.locator('.session-bar');
  await bar.getByText('Failed', { exact: true }).waitFor();
  await bar.getByText('Claude Code did not start: npx cannot run it: No matching version found.\\u202E', { exact: true }).waitFor();
  await waitForMatch(() => bar.locator('.agent-error').getAttribute('title'), /^[^\u202E]{900,1100}…$/);
  await waitForCount(page.getByText('ready', { exact: true }), 0);
  const { lifecycleState: _state, agentError: _error, ...rest } = metadata;
  await cli.emitWithAck('update-metadata', { sid: session.id, expectedVersion: 1, metadata: { ...rest, lifecycleState: 'running' } });
  await bar.getByText('Ready', { exact: true }).waitFor();
  await bar.getByText('/code/f').waitFor();
  await page.getByRole('link', { name: /The talk.*ready/ }).waitFor();
});
