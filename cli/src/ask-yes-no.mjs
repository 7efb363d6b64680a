/** A question at the terminal that is answered by yes or no. */

/**
 * Asks once. Everything but `y` or `yes` is a no, the end of the input included.
 * @param {import('node:readline/promises').Interface} terminal
 * @param {string} question a sentence
 * @returns {Promise<boolean>}
 */
export async function askYesNo(terminal, question) {
  // Without this promise, the end of the input would leave the question without an answer.
  const closed = new Promise((resolve) => terminal.once('close', () => resolve('')));
  // Rejects if the input has ended before the question.
  const answer = await Promise.race([terminal.question(`${question} [y/N] `), closed]).catch(() => '');
  return /^y(es)?$/i.test(answer.trim());
}
