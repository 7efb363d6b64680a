// Errors that are told to a person, and the frame every script's main function runs in.

import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { endWithNpm, isStopping } from './signals.mjs';

/** Something the person at the keyboard can put right: it is printed without a stack. */
export class UserError extends Error {
  /**
   * @param {string} message what is wrong
   * @param {string} [hint] what to do about it
   */
  constructor(message, hint) {
    super(message);
    this.name = 'UserError';
    this.hint = hint;
  }
}

/** The oldest Node that runs the scripts, as package.json says it. */
const OLDEST_NODE = 20;

/**
 * Faults of the machine, as npm, cargo, rustup, the compiler and Node report them, and what to do about each.
 * @type {[RegExp, string][]}
 */
const HINTS = [
  [
    /\bENOSPC\b|No space left on device|os error 28/,
    'The disk is full. Free some space and start this again: the packages, the toolchain and the builds take about 4 GB.',
  ],
  [
    /linker `[^`]*` not found|failed to find tool "(?:cc|c\+\+|clang|gcc)"|xcrun: error/,
    'There is no C compiler, which Rust links with. Install one (Debian: apt-get install build-essential; Fedora: dnf install gcc; macOS: xcode-select --install) and start this again.',
  ],
  [
    /\b(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT)\b|[Cc]ould not (?:resolve|connect)|dns error|error sending request|failed to download/,
    'The network could not be reached. What is downloaded is kept: start this again when there is a connection (behind a proxy, with HTTPS_PROXY set).',
  ],
  [/\bE(?:ACCES|PERM|ROFS)\b|Permission denied|Read-only file system/, 'This user may not write there. Give it the folder, or start this in a folder of its own.'],
];

/** @param {string} text @returns {string | undefined} what to do about the fault of the machine that the text reports */
const hintFor = (text) => HINTS.find(([pattern]) => pattern.test(text))?.[1];

/** A program that ended with another code than 0. `output` is what it said, unless that was shown already. */
export class CommandFailed extends UserError {
  /**
   * @param {string} command as typed
   * @param {number | null} code
   * @param {string | null} signal
   * @param {string} output
   */
  constructor(command, code, signal, output) {
    const how = signal ? `was ended by ${signal}` : `failed with exit code ${code}`;
    super(`\`${command}\` ${how}.`, hintFor(output));
    this.name = 'CommandFailed';
    this.code = code;
    this.signal = signal;
    this.output = output;
  }
}

/** Prints an error as a person needs it: the message, and what to do. @param {unknown} error */
export function printError(error) {
  if (!(error instanceof UserError)) {
    const hint = error instanceof Error && typeof error.code === 'string' ? hintFor(error.code) : undefined;
    console.error(hint ? `\n${error.message}\n${hint}` : error);
    return;
  }
  const output = error instanceof CommandFailed ? error.output.trim() : '';
  if (output) console.error(`\n${output}`);
  console.error(`\n${error.message}`);
  if (error.hint) console.error(error.hint);
}

/**
 * Runs a script and ends the process with what it returns (0 when it returns nothing), or with 1
 * after telling the error.
 * @param {() => Promise<number | void>} script
 */
export async function main(script) {
  try {
    if (Number(process.versions.node.split('.')[0]) < OLDEST_NODE) {
      throw new UserError(
        `This needs Node ${OLDEST_NODE} or newer; \`node\` is ${process.versions.node} here.`,
        'Install a newer one, such as from https://nodejs.org.',
      );
    }
    endWithNpm();
    process.exitCode = (await script()) ?? 0;
  } catch (error) {
    if (isStopping()) return;
    printError(error);
    process.exitCode = 1;
  }
}

/** @param {string} url `import.meta.url` of a module: was it started as a script? */
export function isMain(url) {
  return Boolean(process.argv[1]) && realpathSync(process.argv[1]) === realpathSync(fileURLToPath(url));
}
