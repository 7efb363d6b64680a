// Finds the browser for the web console's tests.

import { existsSync } from 'node:fs';

/** The paths at which operating systems install Chromium. */
const DEFAULT_PATHS = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/**
 * Returns the path of Chromium; undefined when there is none.
 * @param {string} [configured] a path that replaces the default paths
 */
export function findBrowser(configured = process.env.CHROMIUM) {
  return (configured ? [configured] : DEFAULT_PATHS).find((candidate) => existsSync(candidate));
}
