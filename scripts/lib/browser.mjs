// The browser of the web console's tests.

import { existsSync } from 'node:fs';

/** Where systems put it. */
const PLACES = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/**
 * The path of a Chromium, or nothing.
 * @param {string} [named] where it is, when it is not where systems put it: the variable `CHROMIUM`
 */
export function findBrowser(named = process.env.CHROMIUM) {
  return (named ? [named] : PLACES).find((place) => existsSync(place));
}
