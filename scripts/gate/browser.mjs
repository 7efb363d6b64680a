// Finds the browser for the web console's tests.

import { existsSync } from 'node:fs';
import { outputOf } from '../lib/run.mjs';

/** The version of Chromium with which the tests were last changed. */
const TESTED_VERSION = 156;

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

/** Returns a line about a browser of another version than that of the tests. @param {string} output of `chromium --version` */
export function describeOtherVersion(output = outputOf(findBrowser(), ['--version']) ?? '') {
  const version = Number(output.match(/\d+/)?.[0]);
  if (version === TESTED_VERSION) return undefined;
  return `The browser is ${output.trim()}; the tests were last changed with version ${TESTED_VERSION}.`;
}
