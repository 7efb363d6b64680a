/**
 * Each view of the web console is accessible (axe) in both themes and sizes, and does not move while it loads. UPDATE_SCREENS=1 also
 * updates the screenshots of docs/CONSOLE.md.
 */

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { DESK, PHONE, signInUrl, waitForFocus } from '../lib/browser.mjs';
import { liveSession } from '../../../scripts/lib/clients/cli.mjs';
import { startConsole } from '../lib/console.mjs';
import { fillSample, keepAlive, NOW } from '../lib/sample.mjs';
import { saveScreenshot, updatesScreens } from '../lib/screens.mjs';

const { hub, open, visit } = await startConsole();
const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

const SIZES = { phone: PHONE, desk: DESK };
const THEMES = /** @type {const} */ (['light', 'dark']);

/**
 * The views. `presses`: a button that is pressed. `shows`: a text to wait for. `opens`: a file whose diff is opened. `screenshots`: the
 * sizes and themes with a screenshot.
 */
const VIEWS = [
  { name: 'sessions', path: () => '/', shows: 'Parse the dates', screenshots: ['phone light'] },
  {
    name: 'conversation',
    path: (id) => `/sessions/${id}`,
    shows: 'Shall I commit it?',
    screenshots: ['phone light', 'phone dark', 'desk light'],
  },
  {
    name: 'changes',
    path: (id) => `/sessions/${id}/changes`,
    shows: 'src/dates.rs',
    opens: 'src/dates.rs',
    screenshots: ['desk light', 'phone dark'],
  },
  { name: 'files', path: (id) => `/sessions/${id}/files?path=src%2Fdates.rs`, shows: 'parse_date', screenshots: ['desk dark'] },
  { name: 'machines', path: () => '/machines', shows: 'online', screenshots: [] },
  { name: 'new', path: () => '/new', shows: 'Approve everything', screenshots: [] },
  { name: 'archive', path: () => '/archive', shows: 'Rename the tables', screenshots: [] },
  { name: 'settings', path: () => '/settings', shows: 'Safari on iPhone', screenshots: [] },
  { name: 'add-device', path: () => '/settings', presses: 'Add a device', shows: 'KMNP-7Q3X', screenshots: ['phone light'] },
  { name: 'approve-device', path: () => '/pair#RBCD-EFGH', shows: 'Does the device show this code?', screenshots: ['phone light'] },
];

/** Replaces the hub's answers about devices, which have random codes. */
async function routeDevices(page) {
  const device = (name, kind, daysAgo, isCurrent = false) => {
    const time = NOW - daysAgo * 86_400_000;
    return { id: name, name, kind, createdAt: time, lastSeenAt: time, isCurrent };
  };
  const devices = [device('Chrome on Windows', 'browser', 0, true), device('Safari on iPhone', 'phone', 1), device('workshop', 'cli', 9)];
  const code = { code: 'KMNP-7Q3X', url: 'https://hub.example.com/pair#KMNP-7Q3X', expiresAt: NOW + 300_000 };
  const request = { name: 'workshop', kind: 'cli', createdAt: NOW, expiresAt: NOW + 300_000 };
  await page.route('**/api/devices', (route) => route.fulfill({ json: { devices } }));
  await page.route('**/api/devices/codes', (route) => route.fulfill({ json: code }));
  await page.route('**/api/devices/requests/*', (route) => route.fulfill({ json: { request } }));
}

/** Creates sessions with every kind of content. */
async function createSample(t) {
  const { session, cli } = await liveSession(t, hub, {
    namespace: 'views',
    tag: '/code/almanac',
    metadata: { path: '/code/almanac', host: 'workshop', name: 'Parse the dates', flavor: 'alpha', machineId: 'bench' },
  });
  await fillSample(hub, session, cli);
  // A keep-alive in flight at the end of the test fails.
  const timer = setInterval(() => keepAlive(session, cli).catch(() => {}), 10_000);
  t.after(() => clearInterval(timer));
  return session.id;
}

/** Waits until the page has loaded everything: connection, data, fonts, highlighting, and the scroll position of a conversation. */
const waitUntilLoaded = (page) =>
  page.waitForFunction(() => {
    const log = document.querySelector('[role="log"]');
    const isAtEnd = !log || log.scrollTop + log.clientHeight >= log.scrollHeight - 1;
    const isHighlighted = !document.querySelector('.code') || document.querySelector('.code .hljs-keyword');
    const isLive =
      /** @type {HTMLElement} */ (document.querySelector('.connection'))?.dataset.state === 'live' &&
      !document.querySelector('.connection > *');
    return isLive && isAtEnd && isHighlighted && !document.querySelector('.skeleton') && document.fonts.status === 'loaded';
  });

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

/** Returns the accessibility violations that axe finds. */
async function findViolations(page) {
  // Messages are hidden until they are measured.
  await page.waitForFunction(() =>
    [...document.querySelectorAll('.message')].every((message) => getComputedStyle(message).visibility === 'visible'),
  );
  const { violations } = await page.evaluate(async () => window.axe.run(document, { resultTypes: ['violations'] }));
  return violations.map(
    ({ id, impact, nodes }) => `${impact}: ${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join(' | ')}`,
  );
}

test('axe finds no violation in any view', { timeout: 280_000 }, async (t) => {
  const id = await createSample(t);
  for (const [size, device] of Object.entries(SIZES)) {
    const { page, pageErrors } = await open(t, { ...device, bypassCSP: true });
    await page.addInitScript({ path: axe });
    await page.clock.setFixedTime(NOW);
    await routeDevices(page);
    const checkThemes = async (name, onTheme = async (_colorScheme) => {}) => {
      for (const colorScheme of THEMES) {
        await page.emulateMedia({ colorScheme });
        assert.deepEqual(await findViolations(page), [], `${name} ${size} ${colorScheme}`);
        await onTheme(colorScheme);
      }
    };
    await page.goto('/');
    await page.getByLabel('Code').waitFor();
    await checkThemes('sign-in');
    await page.goto(signInUrl(hub, 'views'));
    await page.waitForURL((url) => url.hash === '');
    for (const { name, path: pathOf, presses, shows, opens, screenshots } of VIEWS) {
      await page.goto(pathOf(id));
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
      if (name === 'conversation') await measureMessages(page);
      await checkThemes(name, async (theme) => {
        if (updatesScreens && screenshots.includes(`${size} ${theme}`)) await saveScreenshot(page, `${name}-${size}-${theme}`);
      });
    }
    assert.deepEqual(pageErrors, []);
  }
});

/** Records in `window.moves` the elements that move without an action of the user. */
function recordMoves() {
  window.moves = [];
  const place = ({ x, y }) => `${x}, ${y}`;
  const describe = ({ node, previousRect, currentRect }) =>
    `“${node?.textContent?.slice(0, 40)}” from ${place(previousRect)} to ${place(currentRect)}`;
  const observer = new PerformanceObserver((list) =>
    window.moves.push(...list.getEntries().flatMap((/** @type {any} */ { sources }) => sources.map(describe))),
  );
  observer.observe({ type: 'layout-shift', buffered: true });
}

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
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  }
}

test('no view moves its content while it loads, in any order of responses', { timeout: 280_000 }, async (t) => {
  const id = await createSample(t);
  for (const size of Object.values(SIZES)) {
    const { page } = await visit(t, 'views', size);
    await waitUntilLoaded(page);
    await page.addInitScript(recordMoves);
    await routeDevices(page);
    const held = await holdRequests(page);
    for (const { name, path } of VIEWS) {
      for (const takeNext of [() => held.shift(), () => held.pop()]) {
        await page.goto(path(id));
        await releaseUntilLoaded(page, held, takeNext);
        assert.deepEqual(await page.evaluate(() => window.moves), [], `${name}, width ${size.viewport.width}`);
      }
    }
  }
});

test('dialogs and menus have no violation and work with the keyboard', async (t) => {
  const id = await createSample(t);
  const { page } = await open(t, { ...DESK, bypassCSP: true });
  await page.addInitScript({ path: axe });
  await page.goto(signInUrl(hub, 'views', `/sessions/${id}`));
  await page.getByText('Shall I commit it?').first().waitFor();
  const menuButton = page.getByRole('button', { name: 'Session actions' });
  await menuButton.focus();
  await page.keyboard.press('Enter');
  const rename = page.getByRole('menuitem', { name: 'Rename' });
  await waitForFocus(rename);
  assert.deepEqual(await findViolations(page), []);
  await page.keyboard.press('Escape');
  await waitForFocus(menuButton);
  await page.keyboard.press('Enter');
  await waitForFocus(rename);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await waitForFocus(page.getByRole('menuitem', { name: 'Archive' }));
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  assert.deepEqual(await findViolations(page), []);
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
  assert.deepEqual(await findViolations(page), []);
  await page.keyboard.press('Backspace');
  for (const line of ['Denied', 'TodoWrite']) {
    await page.locator('summary', { hasText: line }).focus();
    await page.keyboard.press('Enter');
  }
  await page.locator('.decision-details').waitFor();
  assert.deepEqual(await findViolations(page), []);
});
