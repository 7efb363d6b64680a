/** QR codes in the terminal. */

import { renderUnicodeCompact } from 'uqr';

/** Colors of a line: white on black. With these colors the modules are dark on a light ground on every terminal, as cameras expect. */
const [START_COLORS, END_COLORS] = ['\x1b[40;97m', '\x1b[0m'];

/**
 * Returns a QR code for a terminal. A line shows two rows of the code's modules: a link of 60 characters takes 17 lines.
 * @param {string} text
 * @returns {string} lines without a line break at the end
 */
export function qrCode(text) {
  const lines = renderUnicodeCompact(text, { border: 2 }).split('\n');
  return lines.map((line) => `${START_COLORS}${line}${END_COLORS}`).join('\n');
}
