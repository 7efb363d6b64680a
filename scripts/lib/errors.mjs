// Errors for the user, and `main`, which runs a script and sets its exit code.

import { readFileSync } from 'node:fs';
import { UsageError, UserError } from '../../packages/cli-kit/src/errors.mjs';
import { DATA_DIR, IS_PACKAGE } from './paths.mjs';
import { endWithNpm, isStopping } from './signals.mjs';

export { UsageError, UserError };

const { engines } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));

/** The oldest supported major version of Node, from `engines` in package.json. */
const OLDEST_NODE = Number(engines.node.replace(/\D+/, ''));

/** Matches how Node, rustc, npm and SQLite report a full disk. Node reports too many watched files with the same code and `System limit`. */
export const DISK_FULL = /\bENOSPC\b(?!: System limit)|No space left on device|os error 28|\bSQLITE_FULL\b/;

export const DISK_FULL_ADVICE = `The disk ${IS_PACKAGE ? `with ${DATA_DIR} ` : ''}is full: free some space and try again.`;

/**
 * Problems of the computer, as npm, cargo, rustup, the compiler and Node report them, and the advice for each problem.
 * @type {[RegExp, string][]}
 */
const HINTS = [
  [DISK_FULL, DISK_FULL_ADVICE],
  [
    /linker `[^`]*` not found|failed to find tool "(?:cc|c\+\+|clang|gcc)"|xcrun: error/,
    'Rust needs a C compiler to link. Install one (Debian: apt-get install build-essential; Fedora: dnf install gcc; macOS: xcode-select --install) and try again.',
  ],
  [
    /\b(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT)\b|[Cc]ould not (?:resolve|connect)|dns error|error sending request|failed to download/,
    'The network cannot be reached. Check the connection (behind a proxy, set HTTPS_PROXY) and try again. Finished downloads are kept.',
  ],
  [
    /\bE(?:ACCES|PERM|ROFS)\b|Permission denied|Read-only file system/,
    'This user may not write there. Change the owner of the folder, or use another folder.',
  ],
];

/** The user asks for the usage text, which is the message: `main` prints it, and the script has succeeded. */
export class HelpRequest extends Error {}

/** @param {string} text the output or the error code of a program */
const findHint = (text) => HINTS.find(([pattern]) => pattern.test(text))?.[1];

/** A program exited with a code other than 0. `output` is empty if the output was already shown. */
export class CommandFailed extends UserError {
  /**
   * @param {string} command with its arguments
   * @param {number | null} code
   * @param {string | null} signal
   * @param {string} output
   */
  constructor(command, code, signal, output) {
    const ending = signal ? `was ended by ${signal}` : `failed with exit code ${code}`;
    super(`\`${command}\` ${ending}.`, findHint(output));
    this.code = code;
    this.signal = signal;
    this.output = output;
  }
}

/** @param {unknown} error */
function isDiskFull(error) {
  if (error instanceof CommandFailed) return DISK_FULL.test(error.output);
  return error instanceof Error && DISK_FULL.test(/** @type {NodeJS.ErrnoException} */ (error).code ?? error.message);
}

/** Prints the message of an error, and what to do. For an unexpected error, prints the stack trace. @param {unknown} error */
export function printError(error) {
  if (isDiskFull(error)) {
    // The output of the program is left out, because it would hide the advice: a failed migration prints three screens.
    console.error(`\n${DISK_FULL_ADVICE}`);
    return;
  }
  if (!(error instanceof UserError)) {
    const { code, message } = /** @type {NodeJS.ErrnoException} */ (error instanceof Error ? error : {});
    const hint = typeof code === 'string' ? findHint(code) : undefined;
    console.error(hint ? `\n${message}\n${hint}` : error);
    return;
  }
  const output = error instanceof CommandFailed ? error.output.trim() : '';
  if (output) console.error(`\n${output}`);
  console.error(`\n${error.message}`);
  if (error.hint) console.error(error.hint);
}

/**
 * Runs a script and sets the exit code: the number that the script returns (default 0), 2 after a usage error, 1 after another error.
 * @param {() => number | void | Promise<number | void>} script
 */
export async function main(script) {
  try {
    if (Number(process.versions.node.split('.')[0]) < OLDEST_NODE) {
      throw new UserError(
        `Node ${OLDEST_NODE} or newer is needed, but this is Node ${process.versions.node}.`,
        'Install a newer version, for example from https://nodejs.org.',
      );
    }
    endWithNpm();
    const code = await script();
    process.exitCode = typeof code === 'number' ? code : 0;
  } catch (error) {
    if (isStopping()) return;
    if (error instanceof HelpRequest) {
      console.log(error.message);
      return;
    }
    printError(error);
    process.exitCode = error instanceof UsageError ? 2 : 1;
  }
}
