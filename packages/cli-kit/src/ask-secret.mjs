/** Asks for a secret at the terminal, and does not show what is typed. */

import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';

/**
 * @param {string} question
 * @param {{input: NodeJS.ReadableStream, output: NodeJS.WritableStream}} terminal
 * @returns {Promise<string>} the answer; empty if the input ended, or after Ctrl-C
 */
export async function askSecret(question, { input, output }) {
  const hidden = new Writable({ write: (_chunk, _encoding, done) => done() });
  const editor = createInterface({ input, output: hidden, terminal: true, historySize: 0 });
  // Written after the editor has turned off the echo: the terminal would show an answer that is typed earlier.
  output.write(question);
  try {
    return await new Promise((resolve) => {
      editor.once('line', resolve);
      for (const ending of ['SIGINT', 'close']) editor.once(ending, () => resolve(''));
    });
  } finally {
    editor.close();
    output.write('\n');
  }
}
