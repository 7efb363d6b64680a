/** Each view of the web console fits into the window: with large text, from right to left, in landscape, and on narrow screens. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DESK, PHONE, waitForCount, signIn, waitForFrames } from '../lib/browser.mjs';
import { startConsole } from '../lib/console.mjs';
import { NOW } from '../lib/sample.mjs';
import {
  assertNoViolations,
  createSample,
  createTalk,
  findBrokenWords,
  findCut,
  findOutside,
  MORE_VIEWS,
  openInPage,
  pressAll,
  routeDevices,
  routeFolders,
  setFontSize,
  VIEWS,
  waitUntilLoaded,
} from '../lib/views.mjs';

const { hub, open, visit } = await startConsole();

/** The folder for a picture of each view in each layout. By default, no pictures are saved. */
const PICTURES = process.env.LAYOUT_PICTURES;

const UPRIGHT = { width: 390, height: 664 };
const WIDE = DESK.viewport;

/** The layouts that each view is shown in, one after another. */
const LAYOUTS = {
  phone: [
    { name: 'right to left', viewport: UPRIGHT, dir: 'rtl' },
    { name: 'text of 200 %', viewport: UPRIGHT, fontSize: 32 },
    { name: 'landscape', viewport: { width: 664, height: 390 } },
  ],
  desk: [{ name: 'right to left', viewport: WIDE, dir: 'rtl' }],
};

/** The views with their buttons. Those without buttons are first: what a button opens stays open until the next load of the page. */
const SORTED_VIEWS = [...VIEWS, ...MORE_VIEWS]
  .map(({ presses = [], ...view }) => ({ ...view, buttons: [presses].flat() }))
  .sort((a, b) => Number(a.buttons.length > 0) - Number(b.buttons.length > 0));

/** Sets the size of the window and of the text, and the direction of the text, and waits until the page is drawn. */
async function applyLayout(page, { viewport, fontSize = 16, dir = 'ltr' }) {
  await page.setViewportSize(viewport);
  await setFontSize(page, fontSize);
  await page.evaluate((value) => {
    document.documentElement.dir = value;
  }, dir);
  await waitForFrames(page);
}

/** Returns how far the form for a new session is visible below its button, in pixels. */
const findGap = (page) =>
  page.evaluate(() => {
    const [bar, scroller] = ['.start-actions', '.page'].map((selector) => document.querySelector(selector));
    const scrolls = bar && scroller && scroller.scrollHeight > scroller.clientHeight;
    return scrolls ? scroller.getBoundingClientRect().bottom - bar.getBoundingClientRect().bottom : 0;
  });

for (const [size, device] of Object.entries({ phone: { ...PHONE, viewport: UPRIGHT }, desk: DESK })) {
  test(`each view fits into the window in every layout: ${size}`, { timeout: 280_000 }, async (t) => {
    const id = await createSample(t, hub, 'layouts');
    const talk = await createTalk(t, hub, 'layouts');
    const { page } = await open(t, device);
    await page.clock.setFixedTime(NOW);
    await routeDevices(page);
    await routeFolders(page);
    await signIn(page, hub, 'layouts');
    const problems = [];
    for (const { name, path, buttons, shows } of SORTED_VIEWS) {
      await applyLayout(page, { viewport: device.viewport });
      await (buttons.length > 0 ? page.goto(path(id, talk)) : openInPage(page, path(id, talk)));
      await waitUntilLoaded(page);
      await pressAll(page, buttons);
      await page.getByText(shows).locator('visible=true').first().waitFor();
      await waitUntilLoaded(page, { isAtEnd: name !== 'folded turn' });
      if (MORE_VIEWS.some((view) => view.name === name)) await assertNoViolations(page, name);
      for (const layout of LAYOUTS[size]) {
        await applyLayout(page, layout);
        if (name === 'account menu') {
          // A menu keeps the place where it was opened.
          await page.keyboard.press('Escape');
          await pressAll(page, buttons);
        }
        if (PICTURES) await page.screenshot({ path: `${PICTURES}/${size}-${name}-${layout.name}.png` });
        const [broken, cut, gap, width, outside] = await Promise.all([
          findBrokenWords(page, '.held-line > .button, .actions > .button'),
          findCut(page, '.menu-list .ellipsis, .directory-actions .ellipsis, .held-line .ellipsis'),
          findGap(page),
          page.evaluate(() => document.documentElement.scrollWidth),
          findOutside(page),
        ]);
        if (broken.length > 0) problems.push(`${name}, ${layout.name}: broken words: ${broken}`);
        if (cut.length > 0) problems.push(`${name}, ${layout.name}: cut: ${cut}`);
        if (gap > 0.5) problems.push(`${name}, ${layout.name}: the form is visible below its button: ${gap} px`);
        if (width > layout.viewport.width) problems.push(`${name}, ${layout.name}: the page is ${width} px wide`);
        problems.push(...outside.map((text) => `${name}, ${layout.name}: outside: ${text}`));
      }
    }
    assert.deepEqual(problems, []);
  });
}

/** The views whose text may be twice as large, each with a text to wait for. */
const largeTextViews = (id) => ({
  [`/sessions/${id}`]: 'Shall I commit it?',
  '/': 'Parse the dates',
  '/machines': 'online',
  '/new': 'Another directory …',
  '/archive': 'Rename the tables',
  '/settings': 'Devices',
});

test('with text of 200 %, and on narrow screens, nothing is off the screen and no label of the navigation overlaps', async (t) => {
  const id = await createSample(t, hub, 'layouts');
  const { page } = await visit(t, 'layouts', DESK);
  for (const [path, shows] of Object.entries(largeTextViews(id))) {
    await openInPage(page, path);
    await page.getByText(shows).locator('visible=true').first().waitFor();
    await waitUntilLoaded(page);
    for (const [width, fontSize] of [
      [320, 16],
      [320, 32],
      [390, 32],
      [1280, 32],
    ]) {
      await applyLayout(page, { viewport: { width, height: 664 }, fontSize });
      assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).fontSize), `${fontSize}px`);
      const problems = await page.evaluate(() => {
        const boxOf = (element) => element.getBoundingClientRect();
        const labels = [...document.querySelectorAll('.nav-link > span:not(.badge)')].filter((label) => boxOf(label).width > 1);
        const isColumn = boxOf(document.querySelector('.nav-bar')).height > 300;
        const overlapping = labels.filter((label, index) => {
          const next = labels[index + 1];
          const isCut = label.scrollWidth > label.clientWidth + 1;
          return isCut || (next && (isColumn ? boxOf(label).bottom > boxOf(next).top : boxOf(label).right > boxOf(next).left));
        });
        return overlapping.map((element) => `${element.className} ${element.textContent}`);
      });
      assert.deepEqual([...problems, ...(await findOutside(page))], [], `${path} at ${width} pixels and ${fontSize} pixels of text`);
      assert.deepEqual(
        await findBrokenWords(page, '.request-choices > .button'),
        [],
        `${path} at ${width} pixels and ${fontSize} pixels of text`,
      );
      if (!path.startsWith('/sessions') || width === 1280)
        await waitForCount(page.getByRole('navigation', { name: 'Views', exact: true }).getByRole('link'), 5);
    }
  }
});

test('on a page that is translated into a right-to-left language, code is not mirrored', async (t) => {
  const id = await createSample(t, hub, 'views');
  const { page } = await visit(t, 'views', PHONE);
  await page.addInitScript(() =>
    document.addEventListener('DOMContentLoaded', () => {
      document.documentElement.dir = 'rtl';
    }),
  );
  const directions = (selector) =>
    page.locator(selector).evaluateAll((elements) => [...new Set(elements.map((element) => getComputedStyle(element).direction))]);
  await page.goto(`/sessions/${id}`);
  await page.locator('.request .command').waitFor();
  assert.deepEqual(await directions('.mono, pre, code, .path'), ['ltr']);
});
