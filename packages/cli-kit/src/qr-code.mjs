/** QR codes in the terminal. */

import { renderUnicodeCompact } from 'uqr';

/** White on black: the code is then dark on light on every terminal, which is what cameras expect. */
const [START, END] = ['\x1b[40;97m', '\x1b[0m'];

/**
 * Returns a QR code for a terminal, two rows of modules in each line. A link of 60 characters takes 17 lines.
 * @param {string} text
 * @returns {string} lines without a line break at the end
 */
export function qrCode(text) {
  const lines = renderUnicodeCompact(text, { border: 2 }).split('\n');
  return lines.map((line) => `${START}${line}${END}`).join('\n');
}
