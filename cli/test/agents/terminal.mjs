/** The agent's own program in a pseudo-terminal. */

import { runAtTerminal } from '../support/cli-process.mjs';

const TIMEOUT_MS = 60_000;

/** How often two interrupts are typed until the program ends. A later interrupt could kill a part of a program that is ending. */
const INTERRUPT_INTERVAL_MS = 5000;

/** The request of a program for the position of the cursor, and an answer. */
const CURSOR_REQUEST = '\u001b[6n';
const CURSOR = '\u001b[1;1R';
/** Programs end after a second interrupt. */
const INTERRUPTS = '\u0003\u0003';

const CONTROL = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-_])|[\u0000-\u0020]/g;

/** Removes control sequences, and spaces, which programs draw by moving the cursor. */
const toLetters = (text) => text.replaceAll(CONTROL, '');

/**
 * Runs a command of a shell in a terminal of 120 columns and 40 lines, until the terminal has shown some texts. Then interrupts the program
 * until it ends.
 * @param {import('node:test').TestContext} t
 * @param {string} command
 * @param {{env: Record<string, string>, texts: string[], onShown?: () => unknown}} options
 * @throws {Error} with what the terminal has shown, if the program ends early or the texts are missing after a minute
 */
export async function runInTerminal(t, command, { env, texts, onShown = () => {} }) {
  const { child, exit, shown } = runAtTerminal(t, ['/bin/sh', '-c', `stty rows 40 cols 120; ${command}`], env);
  child.stdin.on('error', () => {});
  await new Promise((resolve, reject) => {
    const fail = (reason) => reject(new Error(`${reason}. The terminal has shown:\n${toLetters(shown()).slice(-3000)}`));
    const timer = setTimeout(() => fail('The texts are missing'), TIMEOUT_MS);
    child.stdout.on('data', (chunk) => {
      if (chunk.includes(CURSOR_REQUEST)) child.stdin.write(CURSOR);
      const letters = toLetters(shown());
      if (texts.every((text) => letters.includes(toLetters(text)))) resolve(undefined);
    });
    exit.then(() => {
      clearTimeout(timer);
      fail('The program has ended');
    });
  });
  await onShown();
  const interrupt = () => child.stdin.write(INTERRUPTS);
  interrupt();
  const timer = setInterval(interrupt, INTERRUPT_INTERVAL_MS);
  await exit.finally(() => clearInterval(timer));
}
