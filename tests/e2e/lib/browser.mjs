/** A real browser, for the tests of the web console. */

import { chromium } from 'playwright-core';
import { findBrowser } from '../../../scripts/lib/browser.mjs';
import { signInLink } from '../../../scripts/lib/console.mjs';
import { eventually, PATIENCE_MS } from './await.mjs';

/** What makes the browser draw the same pixels each time: whole tiles, one after another. */
const DRAWING = ['--disable-partial-raster', '--num-raster-threads=1', '--disable-skia-runtime-opts', '--disable-lcd-text'];

/** A phone and a desk. */
export const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };
export const DESK = { viewport: { width: 1280, height: 800 } };

/**
 * Starts the browser.
 * @param {{after: (step: () => unknown) => void}} t
 */
export async function startBrowser(t) {
  const executablePath = findBrowser();
  if (!executablePath) throw new Error('There is no Chromium on this machine; on Debian: apt-get install chromium');
  // A container's root user has no sandbox to offer, and its /dev/shm is small.
  const browser = await chromium.launch({ executablePath, args: [...DRAWING, '--no-sandbox', '--disable-dev-shm-usage'] });
  t.after(() => browser.close());
  return browser;
}

/**
 * A page of its own in a browser of its own: nothing is kept from another. The test fails when the page complains, of its
 * Content-Security-Policy as of anything else.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {import('playwright-core').Browser} browser
 * @param {import('./hub.mjs').Hub} hub
 * @param {object} [options] of the browser's context, such as {@link PHONE}
 */
export async function openPage(t, browser, hub, options = DESK) {
  const context = await browser.newContext({ baseURL: hub.url, locale: 'en-GB', timezoneId: 'UTC', reducedMotion: 'reduce', ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  t.after(() => context.close());
  const page = await context.newPage();
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => {
    // What the network refuses is a test's own doing, and shown to the person.
    if (message.type() === 'error' && !/Failed to load resource|WebSocket connection to|net::ERR_/.test(message.text())) complaints.push(message.text());
  });
  return { page, context, complaints };
}

/** The address that signs in, as `npm run dev` prints it. */
export const linkTo = (hub, namespace, path) => signInLink(hub.url, hub.token(namespace), path);

/** Waits until there are so many of an element. @param {import('playwright-core').Locator} locator */
export const counted = (locator, count) => eventually(async () => (await locator.count()) === count, `${count} times ${locator}`);

/** Waits until a field holds a text. @param {import('playwright-core').Locator} locator */
export const holds = (locator, text) => eventually(async () => (await locator.inputValue()) === text, `“${text}” in ${locator}`);

/** Waits until an element has the focus. @param {import('playwright-core').Locator} locator */
export const focused = (locator) => eventually(() => locator.evaluate((element) => element === document.activeElement), `the focus of ${locator}`);
