/** A shell that runs the commands of a page, and the comparison of their output with the page. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { stripVTControlCharacters } from 'node:util';
import { withTimeout } from '../../../scripts/lib/await.mjs';

const END_MARKER = '=== exit code';

/** A shell that stays open between commands, so that its variables are kept. */
export class Terminal {
  #shell;
  #output = '';
  #changed = () => {};

  /** @param {{after: (step: () => unknown) => void}} t @param {{cwd: string, env: Record<string, string | undefined>}} options */
  constructor(t, { cwd, env }) {
    this.#shell = spawn('bash', { cwd, env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] });
    t.after(() => this.#shell.kill('SIGKILL'));
    for (const stream of [this.#shell.stdout, this.#shell.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        this.#output += text;
        this.#changed();
      });
    }
  }

  /**
   * Runs commands.
   * @param {string} commands
   * @param {{input?: string, timeoutMs?: number}} [options] `input`: what the commands read
   * @returns {Promise<{code: number, output: string}>} the exit code of the last command, and what all commands have printed
   */
  async run(commands, { input, timeoutMs } = {}) {
    this.#output = '';
    const isDone = () => new RegExp(`${END_MARKER} \\d+\n`).test(this.#output);
    const done = new Promise((resolve) => {
      this.#changed = () => isDone() && resolve(undefined);
    });
    const source = input === undefined ? '</dev/null' : `<<< '${input}'`;
    this.#shell.stdin.write(`{ ${commands.trimEnd()}\n} ${source}\necho "${END_MARKER} $?"\n`);
    await withTimeout(done, `the end of ${commands}`, timeoutMs);
    const [output, code] = this.#output.split(END_MARKER);
    return { code: Number(code), output: stripVTControlCharacters(output) };
  }
}

/** Patterns of texts that differ in each run: the pattern in the page, and the pattern that the output must match. */
/** @type {[RegExp, string][]} */
const VARIABLE_TEXTS = [
  [/…/, '[^]*?'],
  [/\/home\/ada(?:\/\.session-gateway)?/, '[^"\']*?'],
  [/[0-9a-f]{8}-[0-9a-f-]*/, '[0-9a-f-]+'],
  [/[0-9a-f]{8}(?=-notes\.txt)/, '[0-9a-f]{8}'],
  [/\d{13,}/, '\\d+'],
  [/"laptop"/, '"[^"]+"'],
];

/** Returns a pattern for an output of a page, without white space. @param {string} expected */
export function toPattern(expected) {
  const variableText = new RegExp(VARIABLE_TEXTS.map(([text]) => `(${text.source})`).join('|'), 'g');
  const escapePattern = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  let source = '';
  let end = 0;
  const text = expected.replace(/\s+/g, '');
  for (const match of text.matchAll(variableText)) {
    const which = match.slice(1).findIndex((group) => group !== undefined);
    source += escapePattern(text.slice(end, match.index)) + VARIABLE_TEXTS[which][1];
    end = match.index + match[0].length;
  }
  return new RegExp(source + escapePattern(text.slice(end)));
}

/** @param {string} output @param {string} expected @param {string} what */
export const assertShows = (output, expected, what) =>
  assert.match(output.replace(/\s+/g, ''), toPattern(expected), `${what}: the output differs from the page:\n${output}`);
