/**
 * Each view of the web console, light and dark, on a phone and on a desk: axe finds no fault. With UPDATE_SCREENS=1 the
 * pictures of docs/CONSOLE.md are made anew.
 */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { test } from 'node:test';
import { DESK, focused, PHONE, linkTo } from '../lib/browser.mjs';
import { liveSession } from '../lib/cli.mjs';
import { startConsole } from '../lib/console.mjs';
import { ROOT } from '../lib/hub.mjs';
import { keepAlive, NOW, tell } from '../lib/sample.mjs';

const { hub, open } = await startConsole();
const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

const SIZES = { phone: PHONE, desk: DESK };
const THEMES = ['light', 'dark'];

/** The views, each with what is to be there before it is looked at. `screens`: for which size and theme there is a picture. */
const VIEWS = [
  { name: 'sessions', at: () => '/', shows: 'Parse the dates', screens: ['phone light'] },
  { name: 'conversation', at: (id) => `/sessions/${id}`, shows: 'Shall I commit it?', screens: ['phone light', 'phone dark', 'desk light'] },
  { name: 'changes', at: (id) => `/sessions/${id}/changes`, shows: 'src/dates.rs', opens: 'src/dates.rs', screens: ['desk light', 'phone dark'] },
  { name: 'files', at: (id) => `/sessions/${id}/files?path=src%2Fdates.rs`, shows: 'parse_date', screens: ['desk dark'] },
  { name: 'machines', at: () => '/machines', shows: 'online', screens: [] },
  { name: 'new', at: () => '/new', shows: 'Skip permission requests', screens: [] },
  { name: 'archive', at: () => '/archive', shows: 'Rename the tables', screens: [] },
  { name: 'settings', at: () => '/settings', shows: 'Appearance', screens: [] },
];

/** A namespace with sessions in which everything stands that the views can show. */
async function sample(t) {
  const { session, cli } = await liveSession(t, hub, { namespace: 'views', tag: '/code/almanac', metadata: { path: '/code/almanac', host: 'workshop', name: 'Parse the dates', flavor: 'alpha', machineId: 'bench' } });
  await tell(hub, session, cli);
  // One that is under way when the test ends is not answered any more.
  const beat = setInterval(() => keepAlive(session, cli).catch(() => {}), 10_000);
  t.after(() => clearInterval(beat));
  return session.id;
}

/**
 * Waits until nothing is on its way any more: the connection, what is read, the letters' shapes, the colours of code, and
 * in a conversation the way to its end.
 */
const settled = (page) =>
  page.waitForFunction(() => {
    const log = document.querySelector('[role="log"]');
    const isAtEnd = !log || log.scrollTop + log.clientHeight >= log.scrollHeight - 1;
    const isColoured = !document.querySelector('.code') || document.querySelector('.code .hljs-keyword');
    const isLive = document.querySelector('.connection')?.dataset.state === 'live' && !document.querySelector('.connection > *');
    return isLive && isAtEnd && isColoured && !document.querySelector('.skeleton') && document.fonts.status === 'loaded';
  });

/**
 * Scrolls through the conversation and back to its end. How high a message is shows when it is drawn; what was guessed
 * before moves the others by a part of a pixel, now this way and now that way.
 */
async function readThrough(page) {
  const log = page.getByRole('log', { name: 'Conversation' });
  await log.evaluate((element) => element.scrollTo(0, 0));
  await page.getByRole('button', { name: 'Newest' }).click();
  await settled(page);
  await log.evaluate((element) => element.scrollTo(0, element.scrollHeight));
}

/** The faults that axe finds on the page as it is. */
async function faults(page) {
  // Messages are not seen before their place is known.
  await page.waitForFunction(() => [...document.querySelectorAll('.message')].every((one) => getComputedStyle(one).visibility === 'visible'));
  const { violations } = await page.evaluate(async () => window.axe.run(document, { resultTypes: ['violations'] }));
  return violations.map(({ id, impact, nodes }) => `${impact}: ${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join(' | ')}`);
}

test('axe finds no fault in any view', { timeout: 280_000 }, async (t) => {
  const id = await sample(t);
  for (const [size, device] of Object.entries(SIZES)) {
    const { page, complaints } = await open(t, { ...device, bypassCSP: true });
    await page.addInitScript({ path: axe });
    await page.clock.setFixedTime(NOW);
    const inEachTheme = async (name, look = () => {}) => {
      for (const colorScheme of THEMES) {
        await page.emulateMedia({ colorScheme });
        assert.deepEqual(await faults(page), [], `${name} ${size} ${colorScheme}`);
        await look(colorScheme);
      }
    };
    await page.goto('/');
    await page.getByLabel('Access token').waitFor();
    await inEachTheme('sign-in');
    await page.goto(linkTo(hub, 'views'));
    await page.waitForURL((url) => url.hash === '');
    for (const { name, at, shows, opens, screens } of VIEWS) {
      await page.goto(at(id));
      const seen = page.locator(name === 'sessions' ? '.sidebar' : 'main').getByText(shows, { exact: false }).first();
      await seen.waitFor();
      if (opens) {
        await page.locator('summary', { hasText: opens }).click();
        await page.getByRole('region', { name: `Diff of ${opens}` }).waitFor();
      }
      await settled(page);
      if (name === 'conversation') await readThrough(page);
      await inEachTheme(name, async (theme) => {
        if (process.env.UPDATE_SCREENS && screens.includes(`${size} ${theme}`)) await keep(page, `${name}-${size}-${theme}`);
      });
    }
    assert.deepEqual(complaints, []);
  }
});

test('dialogs, menus and toasts have no fault, and work by keys alone', async (t) => {
  const id = await sample(t);
  const { page } = await open(t, { ...DESK, bypassCSP: true });
  await page.addInitScript({ path: axe });
  await page.goto(linkTo(hub, 'views', `/sessions/${id}`));
  await page.getByText('Shall I commit it?').first().waitFor();
  const more = page.getByRole('button', { name: 'Session actions' });
  await more.focus();
  await page.keyboard.press('Enter');
  const rename = page.getByRole('menuitem', { name: 'Rename' });
  await focused(rename);
  assert.deepEqual(await faults(page), []);
  await page.keyboard.press('Escape');
  await focused(more);
  await page.keyboard.press('Enter');
  await focused(rename);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  assert.deepEqual(await faults(page), []);
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await focused(more);
  await page.keyboard.press('Enter');
  await focused(rename);
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByLabel('Name').fill('Read the dates');
  await page.keyboard.press('Enter');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.getByRole('heading', { name: 'Read the dates', level: 1 }).waitFor();
  await focused(more);
  await page.keyboard.press('c');
  await focused(page.getByLabel('Message to the agent'));
  await page.keyboard.type('/');
  await page.getByRole('option').first().waitFor();
  assert.deepEqual(await faults(page), []);
  await page.keyboard.press('Backspace');
  for (const line of ['Denied', 'TodoWrite']) {
    await page.locator('summary', { hasText: line }).focus();
    await page.keyboard.press('Enter');
  }
  await page.locator('.decision-details').waitFor();
  assert.deepEqual(await faults(page), []);
});

/** A picture of the page, once it looks the same twice: its last changes are a frame away from what can be waited for. */
async function picture(page) {
  // What lies under the pointer looks different.
  await page.mouse.move(0, 0);
  const take = () => page.screenshot({ animations: 'disabled', caret: 'hide' });
  let before;
  let now = await take();
  do [before, now] = [now, await take()];
  while (!before.equals(now));
  return now;
}

/** Keeps a picture, in a palette: a third of the size. */
async function keep(page, name) {
  const sharp = createRequire(createRequire(import.meta.url).resolve('miniflare'))('sharp');
  const small = await sharp(await picture(page)).removeAlpha().png({ palette: true, colours: 256, dither: 0, compressionLevel: 9, effort: 10 }).toBuffer();
  writeFileSync(path.join(ROOT, 'docs', 'screens', `${name}.png`), small);
}
