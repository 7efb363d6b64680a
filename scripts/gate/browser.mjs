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

/** Debian's Chromium without the windows of the browser, and without notifications. It has the same engine, and takes a quarter less CPU time. */
const SHELL_PATH = '/usr/bin/chromium-headless-shell';

/** Returns the path of the browser for tests without notifications; undefined when there is none. */
export const findShell = () => (process.env.CHROMIUM || !existsSync(SHELL_PATH) ? findBrowser() : SHELL_PATH);

/** Returns a line about a browser of another version than that of the tests. @param {string} output of `chromium --version` */
export function describeOtherVersion(output = outputOf(findBrowser(), ['--version']) ?? '') {
  const version = Number(output.match(/\d+/)?.[0]);
  if (version === TESTED_VERSION) return undefined;
  return `The browser is ${output.trim()}; the tests were last changed with version ${TESTED_VERSION}.`;
}
