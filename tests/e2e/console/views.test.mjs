/**
 * Each view of the web console is accessible (axe) in both themes and sizes, and does not move while it loads. UPDATE_SCREENS=1 also
 * updates the screenshots of docs/CONSOLE.md.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferred, eventually } from '../../../scripts/lib/await.mjs';
import { DESK, PHONE, signInUrl, waitForFocus, waitForFrames, signIn } from '../lib/browser.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { Chat, startConsole, waitForRecords } from '../lib/console.mjs';
import { NOW } from '../lib/sample.mjs';
import { replaceTexts, saveScreenshot, updatesScreens } from '../lib/screens.mjs';
import {
  assertNoViolations,
  assertNoViolationsInThemes,
  createSample,
  openInPage,
  recordMoves,
  routeDevices,
  VIEWS,
  waitUntilLoaded,
} from '../lib/views.mjs';

const { hub, open, visit, openTalk } = await startConsole();

const SIZES = { phone: PHONE, desk: DESK };

/**
 * Scrolls through the conversation and back, so that all messages are measured. Estimated heights would shift the screenshot by
 * parts of a pixel.
 */
async function measureMessages(page) {
  const log = page.getByRole('log', { name: 'Conversation' });
  const newest = page.getByRole('button', { name: 'Newest' });
  // A conversation that has just become live scrolls to its end once more.
  for (let attempt = 0; attempt < 20 && !(await newest.isVisible()); attempt += 1) {
    await log.evaluate((element) => element.scrollTo(0, 0));
    await newest.waitFor({ timeout: 1_000 }).catch(() => {});
  }
  await newest.click();
  await waitUntilLoaded(page);
  await log.evaluate((element) => element.scrollTo(0, element.scrollHeight));
}

test('axe finds no violation in any view', { timeout: 280_000 }, async (t) => {
  const id = await createSample(t, hub, 'views');
  for (const [size, device] of Object.entries(SIZES)) {
    const { page } = await open(t, device);
    await page.clock.setFixedTime(NOW);
    await routeDevices(page);
    await page.goto('/');
    await page.getByLabel('Code').waitFor();
    await assertNoViolationsInThemes(page, `sign-in ${size}`);
    await signIn(page, hub, 'views');
    for (const { name, path: pathOf, presses, shows, opens, screenshots } of VIEWS) {
      await openInPage(page, pathOf(id));
      // In a screenshot, the link of a code has the address of a deployed hub.
      if (updatesScreens) await page.evaluate(() => Object.defineProperty(document, 'baseURI', { value: 'https://hub.example.com/' }));
      if (presses) await page.getByRole('button', { name: presses }).click();
      const text = page
        .locator(name === 'sessions' ? '.sidebar' : 'main')
        .getByText(shows, { exact: false })
        .first();
      await text.waitFor();
      if (opens) {
        await page.locator('summary', { hasText: opens }).click();
        await page.getByRole('region', { name: `Diff of ${opens}` }).waitFor();
      }
      await waitUntilLoaded(page);
      if (updatesScreens && name === 'conversation') await measureMessages(page);
      await assertNoViolationsInThemes(page, `${name} ${size}`, async (theme) => {
        if (updatesScreens && screenshots.includes(`${size} ${theme}`)) await saveScreenshot(page, `${name}-${size}-${theme}`);
      });
    }
  }
});

test('axe finds no violation in the quick start', async (t) => {
  for (const [size, device] of Object.entries(SIZES)) {
    const { page } = await open(t, device);
    await page.clock.setFixedTime(NOW);
    await routeDevices(page);
    await page.goto(signInUrl(hub, 'views-empty'));
    await page.locator('pre.command').getByText('--code KMNP-7Q3X').waitFor();
    await waitUntilLoaded(page);
    await assertNoViolationsInThemes(page, size);
    await page.emulateMedia({ colorScheme: 'light' });
    if (updatesScreens && size === 'phone') {
      await replaceTexts(page, [
        [hub.url, 'https://hub.example.com'],
        ['This address works only on the computer that runs the hub.', ''],
      ]);
      await saveScreenshot(page, 'quick-start-phone-light');
    }
  }
});

test('with reduced motion nothing moves while an agent works and a toast appears, and otherwise both are animated', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'motion', tag: '/code/a', metadata: { path: '/code/a', host: 'h' } });
  await cli.keepAlive(session.id, { thinking: true });
  for (const [reducedMotion, expected] of /** @type {const} */ ([
    ['reduce', []],
    ['no-preference', ['pulse', 'slide-in']],
  ])) {
    const { page } = await open(t, { ...DESK, reducedMotion });
    await page.addInitScript(() => {
      window.animations = [];
      for (const type of ['animationstart', 'transitionrun'])
        addEventListener(type, (/** @type {any} */ event) => window.animations.push(event.animationName ?? event.propertyName));
    });
    const sockets = [];
    await page.routeWebSocket(/\/api\/events/, (socket) => {
      sockets.push(socket);
      socket.connectToServer();
    });
    await page.goto(signInUrl(hub, 'motion'));
    await page.locator('.session-row[data-activity="working"]').waitFor();
    await waitUntilLoaded(page);
    const data = { title: 'Permission Request', body: 'Another session', sessionId: 'another', url: '/sessions/another' };
    sockets[0].send(JSON.stringify({ type: 'toast', eventId: 'x', data }));
    const toast = page.locator('.toast');
    await toast.waitFor();
    const isMoving = () => page.evaluate(() => document.getAnimations().some(({ playState }) => playState === 'running'));
    assert.equal(await isMoving(), expected.length > 0, reducedMotion);
    await toast.getByRole('button', { name: 'Close' }).hover();
    await waitForFrames(page);
    const animations = await page.evaluate(() => window.animations);
    if (expected.length === 0) assert.deepEqual(animations, []);
    for (const name of expected) assert.ok(animations.includes(name), `${name} of ${animations}`);
  }
});

/** Holds the requests of a page to the hub. Returns one function for each held request, which sends the request. */
async function holdRequests(page) {
  const held = [];
  await page.route('**/api/**', async (route) => {
    await new Promise((resolve) => held.push(resolve));
    await route.fallback();
  });
  return held;
}

/** Sends held requests, one at a time, until the page has loaded everything. `takeNext` removes and returns the next request. */
async function releaseUntilLoaded(page, held, takeNext) {
  let isLoaded = false;
  const loading = waitUntilLoaded(page).then(() => (isLoaded = true));
  while (!isLoaded) {
    await Promise.race([eventually(() => held.length > 0 || isLoaded, 'a request'), loading]);
    takeNext()?.();
    await waitForFrames(page);
  }
}

test('no view moves its content while it loads, in any order of responses', { timeout: 280_000 }, async (t) => {
  const id = await createSample(t, hub, 'views');
  const paths = new Set(VIEWS.map(({ path }) => path(id)));
  for (const size of Object.values(SIZES)) {
    const { page } = await visit(t, 'views', size);
    await waitUntilLoaded(page);
    await page.addInitScript(recordMoves);
    await routeDevices(page);
    const held = await holdRequests(page);
    for (const path of paths) {
      for (const takeNext of [() => held.shift(), () => held.pop()]) {
        await page.goto(path);
        await releaseUntilLoaded(page, held, takeNext);
        assert.deepEqual(await page.evaluate(() => window.moves), [], `${path}, width ${size.viewport.width}`);
      }
    }
  }
});

test('the requests of a stored conversation appear with its composer, which also appears if the session cannot be loaded', async (t) => {
  const requests = { r1: { tool: 'Bash', arguments: { command: 'ls' }, createdAt: 1 } };
  const { page, context, path, chat, write } = await openTalk(t, 'stored-request', { requests });
  await write({ type: 'text', text: 'Shall I list the files?' });
  await chat.waitForText('Shall I list the files?');
  await chat.request().waitFor();
  await waitForRecords(page, 'list', 1);
  // The messages, and the index.
  await waitForRecords(page, 'conversation', 2);
  await page.close();
  const later = await context.newPage();
  const answered = deferred();
  await later.route(`**/api${path}`, async (route) => {
    await answered.promise;
    await route.continue();
  });
  const configured = later.waitForResponse('**/api/config');
  await later.goto(path);
  const laterChat = new Chat(later);
  await laterChat.waitForText('Shall I list the files?');
  await configured;
  await later.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  await waitForFrames(later);
  const dock = later.locator('.dock');
  assert.equal(await dock.count(), 0);
  answered.resolve();
  await dock.waitFor();
  assert.equal(await laterChat.request().count(), 1);
  await later.unroute(`**/api${path}`);
  await later.route(`**/api${path}`, (route) => route.fulfill({ status: 500, json: { error: 'It failed.', code: 'internal' } }));
  await later.goto(path);
  await later.getByText('It failed.').waitFor();
  await dock.waitFor();
});

test('dialogs and menus have no violation and work with the keyboard', async (t) => {
  const id = await createSample(t, hub, 'views');
  const { page } = await open(t);
  await page.goto(signInUrl(hub, 'views', `/sessions/${id}`));
  await page.getByText('Shall I commit it?').first().waitFor();
  // The button is disabled until the code of its menu is loaded.
  const menuButton = page.getByRole('button', { name: 'Session actions', disabled: false });
  await menuButton.focus();
  await page.keyboard.press('Enter');
  const rename = page.getByRole('menuitem', { name: 'Rename' });
  await waitForFocus(rename);
  await assertNoViolations(page);
  await page.keyboard.press('Escape');
  await waitForFocus(menuButton);
  await page.keyboard.press('Enter');
  await waitForFocus(rename);
  for (const name of ['Pin to the top', 'Mute notifications', 'Colour', 'Archive']) {
    await page.keyboard.press('ArrowDown');
    await waitForFocus(page.getByRole('menuitem', { name }));
  }
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await assertNoViolations(page);
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await waitForFocus(menuButton);
  await page.keyboard.press('Enter');
  await waitForFocus(rename);
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByLabel('Name').fill('Read the dates');
  await page.keyboard.press('Enter');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.getByRole('heading', { name: 'Read the dates', level: 1 }).waitFor();
  await waitForFocus(menuButton);
  await page.keyboard.press('c');
  await waitForFocus(page.getByLabel('Message to the agent'));
  await page.keyboard.type('/');
  await page.getByRole('option').first().waitFor();
  await assertNoViolations(page);
  await page.keyboard.press('Backspace');
  for (const line of ['Denied', 'TodoWrite']) {
    await page.locator('summary', { hasText: line }).focus();
    await page.keyboard.press('Enter');
  }
  await page.locator('.decision-details').waitFor();
  await assertNoViolations(page);
  await page.keyboard.press('Control+f');
  const search = page.getByRole('searchbox', { name: 'Search in this session' });
  await waitForFocus(search);
  await search.fill('commit');
  await page
    .getByRole('search')
    .getByText(/^1 of \d+$/)
    .waitFor();
  await page.getByRole('button', { name: 'Jump to a date' }).press('Enter');
  await page.getByLabel('Show messages since').waitFor();
  await assertNoViolations(page);
  await page.keyboard.press('Escape');
  await search.waitFor({ state: 'detached' });
  await waitForFocus(page.getByRole('log', { name: 'Conversation' }));
  await menuButton.press('Enter');
  await page.getByRole('menuitem', { name: 'Export' }).press('Enter');
  await page.getByRole('dialog', { name: 'Export this session' }).waitFor();
  await assertNoViolations(page);
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await waitForFocus(menuButton);
});
