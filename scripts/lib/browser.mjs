// The browser of the web console's tests.

import { existsSync } from 'node:fs';

/** Where systems put it; `CHROMIUM` names another place. */
const PLACES = [
  process.env.CHROMIUM,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/** The path of a Chromium, or nothing. */
export function findBrowser() {
  return PLACES.find((place) => place && existsSync(place));
}
