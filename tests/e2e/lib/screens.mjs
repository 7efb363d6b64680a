/** Screenshots of the console for the documentation. With UPDATE_SCREENS=1, the tests take new screenshots. */

import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { ROOT } from './hub.mjs';

/** Whether the tests take new screenshots. */
export const updatesScreens = Boolean(process.env.UPDATE_SCREENS);

/** Saves a screenshot in docs/screens. The PNG has a palette, which reduces its size to a third. */
export async function saveScreenshot(page, name) {
  const sharp = createRequire(createRequire(import.meta.url).resolve('miniflare'))('sharp');
  const png = await sharp(await takeStableScreenshot(page))
    .removeAlpha()
    .png({ palette: true, colours: 256, dither: 0, compressionLevel: 9, effort: 10 })
    .toBuffer();
  writeFileSync(path.join(ROOT, 'docs', 'screens', `${name}.png`), png);
}

/** Takes screenshots until two in a row are equal, because no event shows that the page will not change again. */
async function takeStableScreenshot(page) {
  // Moves the mouse away, because hovered elements look different.
  await page.mouse.move(0, 0);
  const take = () => page.screenshot({ animations: 'disabled', caret: 'hide' });
  let previous;
  let current = await take();
  do [previous, current] = [current, await take()];
  while (!previous.equals(current));
  return current;
}

/**
 * Replaces texts on a page, such as the name of this computer.
 * @param {import('playwright-core').Page} page
 * @param {[from: string, to: string][]} pairs
 */
export function replaceTexts(page, pairs) {
  return page.evaluate((all) => {
    const replace = (text) => all.reduce((result, [from, to]) => result.replaceAll(from, to), text);
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) walker.currentNode.nodeValue = replace(walker.currentNode.nodeValue);
    /** @type {NodeListOf<HTMLInputElement | HTMLTextAreaElement>} */
    const fields = document.querySelectorAll('input, textarea');
    for (const field of fields) field.value = replace(field.value);
  }, pairs);
}
