// Handles SIGINT, SIGTERM, SIGHUP and a closed output: runs the script's stop handler, then exits.

import { onNpmEnd } from '../../packages/cli-kit/src/npm-process.mjs';

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };

/** The exit code that a shell reports for a program that writes to a closed pipe (128 + SIGPIPE). */
const CLOSED_OUTPUT_CODE = 141;

/** @type {(() => Promise<number | void>) | undefined} */
let stopHandler;
let hasListeners = false;
let isScriptEnding = false;
let endingSince = 0;

/** On Ctrl-C, the terminal sends a signal to this process, and npm sends a second signal. A second signal within this time is ignored. */
const DUPLICATE_SIGNAL_MS = 1000;

/** Whether a signal is ending this script. Callers then report no errors, because the signal causes them. */
export const isStopping = () => isScriptEnding;

/**
 * Sets the stop handler, and replaces an earlier handler. A second signal exits without waiting for the handler.
 * @param {() => Promise<number | void>} stop returns the exit code; by default, the exit code of the signal
 */
export function onStop(stop) {
  stopHandler = stop;
  if (hasListeners) return;
  hasListeners = true;
  for (const [signal, code] of Object.entries(EXIT_CODES)) process.on(signal, () => endScript(code));
  for (const output of [process.stdout, process.stderr]) output.on('error', () => isScriptEnding || endScript(CLOSED_OUTPUT_CODE));
}

/** @param {number} code */
async function endScript(code) {
  if (isScriptEnding && Date.now() - endingSince < DUPLICATE_SIGNAL_MS) return;
  if (isScriptEnding) process.exit(code);
  isScriptEnding = true;
  endingSince = Date.now();
  try {
    const chosenCode = await stopHandler?.();
    process.exit(typeof chosenCode === 'number' ? chosenCode : code);
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
}

/** Ends this script when the npm process that started it ends. */
export function endWithNpm() {
  onNpmEnd(() => endScript(EXIT_CODES.SIGTERM));
}
