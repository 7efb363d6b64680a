/** Asks for a secret at the terminal, without showing the typed characters. */

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
  // Ask only after the editor has turned off the echo. Otherwise the terminal could show a part of the answer.
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
