/** The browser for tests of the web console, and functions that wait for elements. */

import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { chromium } from 'playwright-core';
import { findBrowser, findShell } from '../../../scripts/gate/browser.mjs';
import { eventually, TIMEOUT_MS, TimeoutError } from '../../../scripts/lib/await.mjs';

/**
 * What Chromium does not do in the tests: load the pages of its own address bar for each tab, which takes more time than the tested page,
 * and keep processes in reserve. The other features are Playwright's, because Chromium reads only the last list.
 */
const DISABLED_FEATURES = [
  ...['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'SpareRendererForSitePerProcess'],
  ...['AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose', 'HttpsUpgrades', 'HttpsFirstBalancedModeAutoEnable'],
  ...['LensOverlay', 'MediaRouter', 'PaintHolding', 'ThirdPartyStoragePartitioning', 'AvoidCorsURLLoaderRestartOnRedirect'],
  ...['OptimizationHints', 'NetworkTimeServiceQuerying', 'AimEnabled', 'PreconnectToSearch'],
];

/** Options of Chromium. The first ones make screenshots reproducible to the pixel. */
const OPTIONS = [
  ...['--disable-partial-raster', '--num-raster-threads=1', '--disable-skia-runtime-opts', '--disable-lcd-text'],
  `--disable-features=${DISABLED_FEATURES}`,
];

export const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };
/** A phone that shows its browser's bars. */
export const SMALL_PHONE = { ...PHONE, viewport: { width: 390, height: 664 } };
export const DESK = { viewport: { width: 1280, height: 800 } };

/**
 * Starts Chromium. It is closed after the test or suite.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {{whole?: boolean}} [options] `whole`: the browser that users have, with notifications
 */
export async function startBrowser(t, { whole = false } = {}) {
  const executablePath = whole ? findBrowser() : findShell();
  if (!executablePath) throw new Error('There is no Chromium on this machine; on Debian: apt-get install chromium');
  const browser = await chromium.launch({ executablePath, args: OPTIONS });
  t.after(() => browser.close());
  return browser;
}

/**
 * Opens a page in a new browser context, isolated from all others. The test fails if a page of the context has an error, also a violation of
 * the Content-Security-Policy. A test that expects errors empties `pageErrors`.
 * @param {{after: (step: () => unknown) => void, passed?: boolean}} t
 * @param {import('playwright-core').Browser} browser
 * @param {import('./hub.mjs').Hub} hub
 * @param {import('playwright-core').BrowserContextOptions} [options] such as {@link PHONE}
 */
export async function openPage(t, browser, hub, options = DESK) {
  const context = await browser.newContext({ baseURL: hub.url, locale: 'en-GB', timezoneId: 'UTC', reducedMotion: 'reduce', ...options });
  context.setDefaultTimeout(TIMEOUT_MS);
  await context.addInitScript(loseSocketsOffline);
  const pageErrors = [];
  t.after(async () => {
    if (t.passed === false) await printPages(context, pageErrors);
    // The handler of a route may still read a response, and responses are not available after the context is closed.
    for (const page of context.pages()) await page.unrouteAll({ behavior: 'ignoreErrors' });
    await context.unrouteAll({ behavior: 'ignoreErrors' });
    await context.close();
    if (t.passed !== false) assert.deepEqual(pageErrors, []);
  });
  context.on('weberror', (event) => pageErrors.push(String(event.error())));
  context.on('console', (message) => {
    // The browser's own messages have no arguments. Those about the network are caused by the tests, and depend on time.
    const isOfPage = message.args().length > 0 || /Content Security Policy|aria-hidden/.test(message.text());
    if (message.type() === 'error' && isOfPage) pageErrors.push(message.text());
  });
  const page = await context.newPage();
  return { page, context, pageErrors };
}

/** Ends the WebSockets of a page that goes offline. With the browser's emulation of a lost network, a socket ends only after a timeout. */
function loseSocketsOffline() {
  window.WebSocket = new Proxy(WebSocket, {
    construct: (Socket, args) => {
      const socket = Reflect.construct(Socket, args);
      addEventListener('offline', () => socket.dispatchEvent(new CloseEvent('close', { code: 1006 })));
      return socket;
    },
  });
}

/** Prints the texts of a failed test's pages, for `npm test`. @param {import('playwright-core').BrowserContext} context */
async function printPages(context, pageErrors) {
  for (const page of context.pages()) {
    const text = await page.locator('body').innerText({ timeout: 5_000 }).catch(String);
    console.log(`The page ${page.url()}: ${text.replace(/\s*\n\s*/g, ' | ').slice(0, 2000)}`);
  }
  if (pageErrors.length > 0) console.log(`Errors of the page: ${pageErrors.join(' | ')}`);
}

/** Returns a link with the token, which earlier versions of `npm run dev` printed: it signs in without the exchange of a code. */
export const signInUrl = (hub, namespace, path = '/') => `${hub.url}${path}#token=${encodeURIComponent(hub.token(namespace))}`;

/** Signs a page in to a namespace, and waits until the page has read the token of the link. @param {import('playwright-core').Page} page */
export async function signIn(page, hub, namespace, path = '/') {
  await page.goto(signInUrl(hub, namespace, path));
  await page.waitForURL((url) => url.hash === '');
}

/** Waits until the page has drawn two frames: a change of the page is drawn, and its effects have run. @param {import('playwright-core').Page} page */
export const waitForFrames = (page) =>
  page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));

/** Waits until a locator matches `count` elements. @param {import('playwright-core').Locator} locator */
export const waitForCount = (locator, count) => eventually(async () => (await locator.count()) === count, `${count} matches of ${locator}`);

/** Waits until an input has a value. @param {import('playwright-core').Locator} locator */
export const waitForValue = (locator, text) => eventually(async () => (await locator.inputValue()) === text, `“${text}” in ${locator}`);

/**
 * Waits until the page shows an expected value: a page that has just appeared may still lack a part of its data.
 * @template T
 * @param {() => Promise<T>} read
 * @param {T} expected
 * @param {string} [message]
 * @throws {assert.AssertionError} with the last value, if the value stays different
 */
export async function waitForEqual(read, expected, message) {
  /** @type {T | undefined} */
  let value;
  const isEqual = async () => {
    value = await read();
    return isDeepStrictEqual(value, expected);
  };
  // Not an error of time: a value that stays different is wrong.
  await eventually(isEqual, 'the expected value').catch((error) => error instanceof TimeoutError || Promise.reject(error));
  assert.deepEqual(value, expected, message);
}

/**
 * Waits until the page shows a text that matches.
 * @param {() => Promise<string | null>} read
 * @param {RegExp} pattern
 */
export async function waitForMatch(read, pattern) {
  let text = '';
  const matches = async () => pattern.test((text = (await read()) ?? ''));
  await eventually(matches, 'the expected text').catch((error) => error instanceof TimeoutError || Promise.reject(error));
  assert.match(text, pattern);
}

/** Returns the vertical position of an element in the window, in whole pixels. */
export const positionOf = async (locator) => Math.round((await locator.boundingBox())?.y ?? Number.NaN);

/**
 * Scrolls a scrolled element up until it has rendered `target`, then with the wheel until `target` is in view, and returns the position of
 * `target`. Waits for the end of each step of the wheel, which moves the content in several frames, also after its call has returned.
 * @returns {Promise<number>}
 */
export async function scrollUpTo(page, scroller, target) {
  while ((await target.count()) === 0) {
    await scroller.evaluate((element) => element.scrollBy(0, -400));
    await waitForFrames(page);
  }
  for (;;) {
    await scroller.hover();
    await page.mouse.wheel(0, -400);
    await scroller.evaluate(
      (element) =>
        new Promise((resolve) => {
          let [last, unchangedFrames] = [element.scrollTop, 0];
          const check = () => {
            unchangedFrames = element.scrollTop === last ? unchangedFrames + 1 : 0;
            last = element.scrollTop;
            if (unchangedFrames === 10) resolve(undefined);
            else requestAnimationFrame(check);
          };
          requestAnimationFrame(check);
        }),
    );
    if ((await target.count()) === 1 && (await positionOf(target)) > 250) return positionOf(target);
  }
}

/** Waits until an element has the focus. @param {import('playwright-core').Locator} locator */
export const waitForFocus = (locator) =>
  eventually(() => locator.evaluate((element) => element === document.activeElement), `the focus of ${locator}`);
