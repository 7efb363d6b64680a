// Headings, elapsed times, and how far the steps are that run.

const tty = process.stdout.isTTY === true;
const colour = tty && !process.env.NO_COLOR;
const paint = (code) => (text) => (colour ? `\x1b[${code}m${text}\x1b[0m` : text);

export const bold = paint(1);
export const dim = paint(2);
export const red = paint(31);
export const green = paint(32);
export const yellow = paint(33);

/** Without a terminal a step first says how far it is after this many milliseconds, and then at longer intervals. */
const FIRST_REPORT_MS = 5_000;
const REPORT_EVERY_MS = 15_000;

/** How often the line of running steps is drawn, in milliseconds. */
const DRAW_EVERY_MS = 250;

/** @param {number} ms */
export function elapsed(ms) {
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`;
}

/**
 * A step that runs.
 * @typedef {object} Running
 * @property {string} title
 * @property {number} started
 * @property {number} reportAt
 * @property {string} state what it is doing now
 */

/** @type {Set<Running>} */
const running = new Set();
let timer;

/** @param {Running} step */
function progressOf({ title, started, state }) {
  return `${title}, ${elapsed(Date.now() - started)}${state ? `: ${state}` : ''}`;
}

/** A terminal has one line for all steps that run; elsewhere each of them reports on a line of its own. */
function draw() {
  if (tty) {
    const line = `  … ${[...running].map(progressOf).join(' · ')}`;
    process.stdout.write(`\r\x1b[2K${dim(line.slice(0, (process.stdout.columns || 80) - 1))}`);
    return;
  }
  for (const runningStep of running) {
    if (Date.now() < runningStep.reportAt) continue;
    runningStep.reportAt = Date.now() + REPORT_EVERY_MS;
    console.log(`  … ${progressOf(runningStep)}`);
  }
}

/** Prints a line above that of the running steps. @param {string} text */
export function printAbove(text) {
  console.log(`${tty && running.size > 0 ? '\r\x1b[2K' : ''}${text}`);
}

/**
 * Runs a step that says how far it is. Steps may run side by side.
 * @template T
 * @param {string} title
 * @param {(update: (state: string) => void) => Promise<T>} work `update` tells what it is doing now
 * @param {object} [options]
 * @param {string} [options.note] printed once at the start, such as how long it will take
 * @returns {Promise<T>}
 */
export async function step(title, work, { note } = {}) {
  const started = Date.now();
  const runningStep = { title, started, reportAt: started + FIRST_REPORT_MS, state: '' };
  if (note) printAbove(`  ${title}: ${note}`);
  running.add(runningStep);
  timer ??= setInterval(draw, tty ? DRAW_EVERY_MS : 1000);
  if (tty) draw();
  const finish = (mark) => {
    printAbove(`  ${mark} ${title} ${dim(elapsed(Date.now() - started))}`);
    running.delete(runningStep);
    if (running.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
  try {
    const result = await work((text) => {
      runningStep.state = text;
    });
    finish(green('✓'));
    return result;
  } catch (error) {
    finish(red('✗'));
    throw error;
  }
}

/**
 * Turns cargo's progress into a state line. Give cargo {@link CARGO_PROGRESS} in its environment.
 * @param {(state: string) => void} update
 * @returns {(line: string) => boolean} for `run`'s `onLine`; swallows the progress, keeps the rest
 */
export function cargoProgress(update) {
  return (line) => {
    const bar = line.match(/^\s*(Building|Downloading)\s+\[[^\]]*\]\s+(\d+)\/(\d+)(?::\s*([^,(]+))?/);
    if (bar) {
      update(`${bar[2]} of ${bar[3]} crates${bar[4] ? `, ${bar[4].trim()}` : ''}`);
      return true;
    }
    const passing = line.match(/^\s*(Updating|Downloading|Downloaded|Locking|Adding|Blocking)\b(.*)/);
    if (passing) {
      update(`${passing[1].toLowerCase()}${passing[2]}`);
      return passing[1] !== 'Blocking';
    }
    return /^\s*(Compiling|Checking|Fresh|Finished|Installing)\b/.test(line) || line.trim() === '';
  };
}

/** Makes cargo print its progress bar although nobody gave it a terminal. */
export const CARGO_PROGRESS = { CARGO_TERM_PROGRESS_WHEN: 'always', CARGO_TERM_PROGRESS_WIDTH: '100' };
