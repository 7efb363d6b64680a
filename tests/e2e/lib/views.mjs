/** Functions of the tests that look at every view of the web console. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { waitForFrames } from './browser.mjs';
import { eventually } from '../../../scripts/lib/await.mjs';
import { connectCli, liveSession } from '../../../scripts/product/clients/cli.mjs';
import { outputRecord } from './records.mjs';
import { fillSample, NOW } from './sample.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** The rules of axe that depend on colors, which are all that the themes differ in. */
const COLOR_RULES = ['color-contrast', 'link-in-text-block'];

/** Creates sessions with every kind of content, and a machine. They are online until the test ends. Returns the id of a session. */
export async function createSample(t, hub, namespace) {
  const { session, cli } = await liveSession(t, hub, {
    namespace,
    tag: '/code/almanac',
    metadata: { path: '/code/almanac', host: 'workshop', name: 'Parse the dates', flavor: 'alpha', machineId: 'bench' },
  });
  await fillSample(hub, session, cli);
  await cli.machineStaysAlive('bench');
  return session.id;
}

/**
 * The views. `presses`: a button that is pressed. `shows`: a text to wait for. `opens`: a file whose diff is opened. `screenshots`: the
 * sizes and themes with a screenshot.
 */
export const VIEWS = [
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
  { name: 'inbox', path: () => '/inbox', shows: 'Waiting for you', screenshots: [] },
  { name: 'machines', path: () => '/machines', shows: 'online', screenshots: [] },
  { name: 'new', path: () => '/new', shows: 'Another directory …', screenshots: ['phone light', 'desk light'] },
  { name: 'archive', path: () => '/archive', shows: 'Rename the tables', screenshots: [] },
  { name: 'settings', path: () => '/settings', shows: 'Safari on iPhone', screenshots: [] },
  { name: 'add-device', path: () => '/settings', presses: 'Add a device', shows: 'KMNP-7Q3X', screenshots: ['phone light'] },
  { name: 'approve-device', path: () => '/pair#RBCD-EFGH', shows: 'Does the device show this code?', screenshots: ['phone light'] },
];

/** Views without screenshots. `path` gets the ids of the sample session and of the session of {@link createTalk}. `presses`: buttons that are pressed in this order. */
export const MORE_VIEWS = [
  { name: 'status', path: () => '/settings/status', presses: [], shows: 'Latest faults' },
  { name: 'unknown address', path: () => '/nowhere', presses: [], shows: 'Page not found' },
  { name: 'account menu', path: () => '/', presses: [/^Account /], shows: 'Add account' },
  { name: 'directory browser', path: () => '/new', presses: ['Another directory …', 'Browse'], shows: 'a-folder-with-a-long-name' },
  { name: 'held message', path: (_, talk) => `/sessions/${talk}`, presses: [], shows: 'Waits for' },
  { name: 'folded turn', path: (_, talk) => `/sessions/${talk}`, presses: [/steps? ·/], shows: 'The first answer' },
  {
    name: 'search',
    path: (id) => `/sessions/${id}`,
    presses: ['Session actions', 'Search', 'Jump to a date'],
    shows: 'Show messages since',
  },
  { name: 'export', path: (id) => `/sessions/${id}`, presses: ['Session actions', 'Export'], shows: 'Export this session' },
];

/** Creates a session with two turns and a message that waits for its machine. Returns the session's id. */
export async function createTalk(t, hub, namespace) {
  const web = hub.web(namespace);
  const metadata = { path: '/code/tide', host: 'harbour', name: 'Compute the tides', lifecycleState: 'running' };
  const { id } = await web.openSession({ tag: '/code/tide/3', metadata });
  const cli = await connectCli(t, hub, { namespace, auth: { sessionId: id } });
  const ask = (text) => cli.sendMessage(id, { role: 'user', content: { type: 'text', text }, meta: { sentFrom: 'cli' } });
  await ask('Compute the tides of this month.');
  await cli.sendMessage(id, outputRecord({ type: 'tool_use', id: 't1', name: 'Bash', input: { command: 'cargo run --bin tides' } }));
  await cli.sendMessage(id, outputRecord({ type: 'text', text: 'The first answer' }));
  await ask('And of the next one.');
  await cli.sendMessage(id, outputRecord({ type: 'text', text: 'The second answer' }));
  await web.post(`/api/sessions/${id}/messages`, { text: 'Then write the table', hold: true, localId: 'held-1' });
  return id;
}

/** Replaces the answers of the sample machine about its folders. */
export const routeFolders = (page) =>
  page.route('**/api/machines/*/directory*', (route) => {
    const entries = ['docs', 'a-folder-with-a-long-name-that-does-not-fit-into-one-line'].map((name) => ({ name, path: `/code/${name}` }));
    return route.fulfill({ json: { success: true, path: '/code', entries, more: 0, roots: ['/code'] } });
  });

/** Presses buttons, items of menus and radio buttons, one after another. */
export async function pressAll(page, names) {
  for (const name of names) {
    const [button, item, radio] = /** @type {const} */ (['button', 'menuitem', 'radio']).map((role) => page.getByRole(role, { name }));
    await button.or(item).or(radio).first().click();
  }
}

/** Returns the texts of the controls and headings that are beyond the left or right edge of the window. */
export const findOutside = (page) =>
  page.evaluate(() => {
    const selector = ['h1', 'h2', '.button', '.input', 'label'].map((name) => `main ${name}, dialog ${name}, .menu-list ${name}`).join();
    return [...document.querySelectorAll(`.nav-link, .tabs a, [role="menuitem"], ${selector}`)]
      .filter((element) => {
        const { left, right, width } = element.getBoundingClientRect();
        // A hidden label has one pixel.
        return width > 1 && (left < -0.5 || right > innerWidth + 0.5);
      })
      .map((element) => `${element.className} ${element.textContent}`);
  });

/** Replaces the hub's answers about devices, which have random codes. */
export async function routeDevices(page) {
  const device = (name, kind, daysAgo, isCurrent = false) => {
    const time = NOW - daysAgo * 86_400_000;
    return { id: name, name, kind, createdAt: time, lastSeenAt: time, isCurrent };
  };
  const devices = [device('Chrome on Windows', 'browser', 0, true), device('Safari on iPhone', 'phone', 1), device('workshop', 'cli', 9)];
  const code = { code: 'KMNP-7Q3X', deviceId: 'd4', url: 'https://hub.example.com/pair#KMNP-7Q3X', expiresAt: NOW + 300_000 };
  const request = { name: 'workshop', kind: 'cli', createdAt: NOW, expiresAt: NOW + 300_000 };
  await page.route('**/api/devices', (route) => route.fulfill({ json: { devices } }));
  await page.route('**/api/devices/codes', (route) => route.fulfill({ json: code }));
  await page.route('**/api/devices/codes/*', (route) => route.fulfill({ json: { device: null } }));
  await page.route('**/api/devices/requests/*', (route) => route.fulfill({ json: { request } }));
}

/**
 * Waits until the page has loaded everything: connection, data, fonts, highlighting, and the scroll position of a conversation.
 * `isAtEnd`: false if something was opened in a conversation, which then stays where it is.
 */
export async function waitUntilLoaded(page, { isAtEnd = true } = {}) {
  const findMissing = (/** @type {boolean} */ mustBeAtEnd) => {
    const log = document.querySelector('[role="log"]');
    const connection = /** @type {HTMLElement} */ (document.querySelector('.connection'));
    const missing = [
      (connection?.dataset.state !== 'live' || connection.childElementCount > 0) && `the connection: ${connection?.outerHTML}`,
      mustBeAtEnd && log && log.scrollTop + log.clientHeight < log.scrollHeight - 1 && `the end of the conversation, at ${log.scrollTop}`,
      document.querySelector('.code') && !document.querySelector('.code .hljs-keyword') && 'highlighting',
      document.querySelector('.list.stale') && 'the list of the hub instead of the stored list',
      document.querySelector('.skeleton') && `the data: ${document.querySelector('main').textContent}`,
      document.fonts.status !== 'loaded' && 'fonts',
    ];
    return missing.filter(Boolean);
  };
  const last = { missing: [] };
  await eventually(async () => {
    last.missing = await page.evaluate(findMissing, isAtEnd);
    return last.missing.length === 0;
  }, 'the page to load').catch((error) => {
    throw new Error(`${error.message} It misses ${last.missing.join('; ')}`);
  });
}

/** Opens a view without loading the page again. The caller waits for its content. @param {import('playwright-core').Page} page @param {string} path */
export async function openInPage(page, path) {
  await page.evaluate((address) => history.pushState(null, '', address), path);
  await waitForFrames(page);
}

/**
 * Checks that axe finds no accessibility violation.
 * @param {import('playwright-core').Page} page
 * @param {string} [message]
 * @param {string[]} [rules] by default all
 */
export async function assertNoViolations(page, message, rules) {
  // Messages are hidden until they are measured.
  await page.waitForFunction(() =>
    [...document.querySelectorAll('.message')].every((message) => getComputedStyle(message).visibility === 'visible'),
  );
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(AXE);
  const run = (/** @type {string[] | undefined} */ runOnly) => window.axe.run(document, { resultTypes: ['violations'], runOnly });
  const { violations } = await page.evaluate(run, rules);
  const texts = violations.map(
    ({ id, impact, nodes }) => `${impact}: ${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join(' | ')}`,
  );
  assert.deepEqual(texts, [], message);
}

/**
 * Checks that axe finds no accessibility violation in both themes. `onTheme`: called after the check of each theme.
 * @param {import('playwright-core').Page} page
 * @param {string} message
 * @param {(theme: 'light' | 'dark') => unknown} [onTheme]
 */
export async function assertNoViolationsInThemes(page, message, onTheme) {
  for (const [colorScheme, rules] of /** @type {const} */ ([
    ['light', undefined],
    ['dark', COLOR_RULES],
  ])) {
    await page.emulateMedia({ colorScheme });
    await assertNoViolations(page, `${message} ${colorScheme}`, /** @type {any} */ (rules));
    await onTheme?.(colorScheme);
  }
}

/** Records in `window.moves` the elements of this page that move without an action of the user. Runs in the page. */
export function recordMoves() {
  window.moves = [];
  const place = ({ x, y }) => `${x}, ${y}`;
  const describe = ({ node, previousRect, currentRect }) =>
    `“${node?.textContent?.slice(0, 40)}” from ${place(previousRect)} to ${place(currentRect)}`;
  const observer = new PerformanceObserver((list) =>
    window.moves.push(...list.getEntries().flatMap((/** @type {any} */ { sources }) => sources.map(describe))),
  );
  observer.observe({ type: 'layout-shift', buffered: true });
}

/** Sets the size of the browser's text. @param {import('playwright-core').Page} page @param {number} pixels 16 by default */
export async function setFontSize(page, pixels) {
  const session = await page.context().newCDPSession(page);
  await session.send('Page.setFontSizes', { fontSizes: { standard: pixels } });
}

/** Returns the texts of the elements whose text does not fit and ends with an ellipsis. */
export const findCut = (page, selector) =>
  page
    .locator(selector)
    .evaluateAll((elements) =>
      elements.filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).map(({ textContent }) => textContent),
    );

/** Returns the words that are broken into two lines, in the texts of the elements that a selector matches. */
export const findBrokenWords = (page, selector) =>
  page.locator(selector).evaluateAll((elements) => {
    const isBroken = (node, { index, 0: word }) => {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      return new Set([...range.getClientRects()].map(({ top }) => top)).size > 1;
    };
    return elements
      .flatMap(({ childNodes }) => [...childNodes])
      .flatMap((node) =>
        [...(node.nodeType === Node.TEXT_NODE ? node.nodeValue : '').matchAll(/\S+/g)].filter((word) => isBroken(node, word)),
      )
      .map(([word]) => word);
  });
