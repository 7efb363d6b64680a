// Runs the hub with `wrangler dev`.

import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { devVars, DEV_VARS_NAME } from '../../lib/dev-vars.mjs';
import { DISK_FULL, DISK_FULL_ADVICE, UserError } from '../../lib/errors.mjs';
import { startGroup } from '../../lib/group.mjs';
import { DATA_DIR, IS_PACKAGE } from '../../lib/paths.mjs';
import { HubRefusedError, respondsWithin, waitUntilReady } from './ready.mjs';
import { environmentWith, readLines } from '../../lib/run.mjs';
import { isStopping } from '../../lib/signals.mjs';
import { LOCAL_COMMAND_ENV, localWranglerCommand } from './wrangler.mjs';
import { localAddress } from './options.mjs';

/** Time limit until the runtime answers its first request. */
const START_TIMEOUT_MS = 120_000;

/** Time between SIGINT and SIGKILL. The runtime writes its state in this time. */
const STOP_TIMEOUT_MS = 5_000;

const DISK_REPORT_INTERVAL_MS = 60_000;

/** Time limit until a restarted runtime answers. wrangler restarts the runtime after a crash. */
const RECOVERY_TIMEOUT_MS = 10_000;

/**
 * Starts `wrangler dev`.
 * @param {{host: string, port: number, verbose: boolean}} options
 * @param {string[]} workerArgs the arguments of wrangler that name the worker
 */
export function startWrangler({ host, port, verbose }, workerArgs) {
  const [command, args] = localWranglerCommand([
    'dev',
    ...workerArgs,
    '--ip',
    host,
    '--port',
    String(port),
    '--inspector-port',
    '0',
    '--show-interactive-dev-session=false',
  ]);
  const { child, exited, pids, kill } = startGroup(command, args, {
    cwd: DATA_DIR,
    env: environmentWith({ ...LOCAL_COMMAND_ENV, HUB_BUILD: 'dev', ...(process.stdout.isTTY ? {} : { NO_COLOR: '1' }) }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const address = localAddress({ host, port });
  let reportHung;
  const hung = new Promise((resolve) => {
    reportHung = resolve;
  });
  // wrangler restarts a crashed runtime, but sometimes the new runtime does not answer.
  const onCrash = async () => {
    if (!(await respondsWithin(address, RECOVERY_TIMEOUT_MS))) reportHung();
  };
  const { startOutput, isDiskFull } = showOutput(child, verbose, onCrash);
  const assertRunning = () => {
    if (child.exitCode === null && child.signalCode === null) return;
    throw new UserError('wrangler exited before the hub was ready; see its output above.');
  };
  const settingFileOf = (variable) => (IS_PACKAGE || variable in devVars() ? DEV_VARS_NAME : 'wrangler.toml');
  return {
    address,
    exited,
    hung,
    pids,
    ready: async (tokens) => {
      try {
        return await waitUntilReady(address, { tokens, timeoutMs: START_TIMEOUT_MS, assertRunning, settingFileOf });
      } catch (error) {
        if (isDiskFull()) throw new UserError(DISK_FULL_ADVICE);
        // An error of the hub itself is complete without wrangler's output.
        if (!isStopping() && !(error instanceof HubRefusedError)) console.error(startOutput.join('\n'));
        throw error;
      }
    },
    stop: async () => {
      child.kill('SIGINT');
      await Promise.race([exited, sleep(STOP_TIMEOUT_MS, undefined, { ref: false })]);
      kill();
    },
  };
}

/**
 * Prints the logs of the worker and errors, but not wrangler's routine output.
 * @param {import('node:child_process').ChildProcess} child
 * @param {boolean} verbose
 * @param {() => void} onCrash called when wrangler reports that the runtime crashed
 * @returns {{startOutput: string[], isDiskFull: () => boolean}} `startOutput`: the output until the hub was ready, to be printed
 *   if the start fails; `isDiskFull`: whether the disk has been full
 */
function showOutput(child, verbose, onCrash) {
  const startOutput = [];
  let isReady = verbose;
  const disk = watchDisk(() => isReady);
  const detectCrash = (text) => text.includes('runtime crashed unexpectedly') && onCrash();
  readLines(child.stdout, (line) => {
    const text = stripVTControlCharacters(line);
    detectCrash(text);
    if (isReady) {
      if (verbose || !(isRoutine(text) || isMinorLogLine(text))) console.log(line);
      return;
    }
    startOutput.push(line);
    isReady = /^\[wrangler:\w+\] Ready on /.test(text);
  });
  readLines(child.stderr, (line) => {
    const text = stripVTControlCharacters(line);
    detectCrash(text);
    const isAboutFullDisk = disk.isDiskFullLine(text);
    const isKnown = isAboutFullDisk || isMinorLogLine(text) || text.includes('Logs were written to');
    if (verbose || (text.trim() !== '' && !isKnown)) {
      console.error(process.stderr.isTTY ? line : text);
    }
  });
  return { startOutput, isDiskFull: disk.isFull };
}

/**
 * Recognises the lines with which the runtime reports a full disk: each failed write makes two long lines. While the hub runs, prints
 * one sentence instead of these lines, at intervals.
 * @param {() => boolean} isRunning
 */
function watchDisk(isRunning) {
  let printedAt = 0;
  let isFull = false;
  let wasDiskFullLine = false;
  /** @param {string} text a line of the output */
  const isDiskFullLine = (text) => {
    wasDiskFullLine = DISK_FULL.test(text) || (wasDiskFullLine && text.startsWith('  stack:'));
    isFull ||= wasDiskFullLine;
    if (wasDiskFullLine && isRunning() && Date.now() - printedAt > DISK_REPORT_INTERVAL_MS) {
      printedAt = Date.now();
      console.error(`The disk with ${DATA_DIR} is full: the hub stores nothing until there is space again.`);
    }
    return wasDiskFullLine;
  };
  return { isDiskFullLine, isFull: () => isFull };
}

/** Whether a line is a log line of the hub below the level `error` (docs/MONITORING.md), such as that of a refused request. @param {string} text */
const isMinorLogLine = (text) => /\{"time":"[^"]*","level":"(debug|info|warn)"/.test(text);

/** Whether a line of wrangler is neither a worker's log nor an error. @param {string} text */
function isRoutine(text) {
  return (
    text.trim() === '' ||
    /^\[wrangler:info\] |^\[custom build\] (Running:|\s*$)|^(⎔|╭|│|╰) ?|^Using secrets |^Your Worker has access |^Binding {2}|^env\./.test(
      text,
    )
  );
}
