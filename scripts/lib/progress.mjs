// Terminal output: colours, durations, and the progress of running steps. A terminal shows one progress line for all running steps. Other
// outputs get a line for each step, at intervals.

const isTerminal = process.stdout.isTTY === true;
const hasColours = isTerminal && !process.env.NO_COLOR;
const paint = (code) => (text) => (hasColours ? `\x1b[${code}m${text}\x1b[0m` : text);

export const bold = paint(1);
export const dim = paint(2);
export const red = paint(31);
export const green = paint(32);
export const yellow = paint(33);

/** For an output that is not a terminal: the time until the first report of a step, and the time between two reports. */
const FIRST_REPORT_MS = 5_000;
const REPORT_INTERVAL_MS = 15_000;

/** The interval at which the progress line of a terminal is redrawn. */
const DRAW_INTERVAL_MS = 250;

/** Formats a duration for the user. @param {number} ms */
export function formatDuration(ms) {
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`;
}

/**
 * A running step.
 * @typedef {object} Step
 * @property {string} title
 * @property {number} started
 * @property {number} reportAt time of the next report
 * @property {string} state what the step is doing now
 */

/** @type {Set<Step>} */
const running = new Set();
let timer;

/** @param {string} text @param {number} width */
const truncate = (text, width) => (text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`);

/**
 * Returns the progress of steps in one line. If the line of several steps is too long, leaves out the states and truncates the titles.
 * @param {{title: string, ms: number, state: string}[]} steps
 * @param {number} width
 */
export function progressLine(steps, width) {
  const indent = '  … ';
  const separator = ' · ';
  const fullLine =
    indent + steps.map(({ title, ms, state }) => `${title} ${formatDuration(ms)}${state ? `: ${state}` : ''}`).join(separator);
  if (fullLine.length <= width || steps.length === 1) return truncate(fullLine, width);
  const freeWidth = width - indent.length - separator.length * (steps.length - 1);
  const widthOfStep = Math.floor(freeWidth / steps.length);
  const parts = steps.map(({ title, ms }) => {
    const time = ` ${formatDuration(ms)}`;
    return `${truncate(title, widthOfStep - time.length)}${time}`;
  });
  return truncate(`${indent}${parts.join(separator)}`, width);
}

/** @param {Step} step */
const withDuration = ({ title, started, state }) => ({ title, ms: Date.now() - started, state });

function draw() {
  if (isTerminal) {
    const line = progressLine([...running].map(withDuration), (process.stdout.columns || 80) - 1);
    process.stdout.write(`\r\x1b[2K${dim(line)}`);
    return;
  }
  for (const step of running) {
    if (Date.now() < step.reportAt) continue;
    step.reportAt = Date.now() + REPORT_INTERVAL_MS;
    console.log(progressLine([withDuration(step)], 80));
  }
}

/** Prints a line above the progress line. @param {string} text */
export function printAbove(text) {
  console.log(`${isTerminal && running.size > 0 ? '\r\x1b[2K' : ''}${text}`);
}

/**
 * Runs a step and shows its progress. Several steps can run at the same time.
 * @template T
 * @param {string} title
 * @param {(update: (state: string) => void) => Promise<T>} run `update` sets the state that is shown
 * @param {object} [options]
 * @param {string} [options.note] printed at the start, such as how long the step takes
 * @returns {Promise<T>}
 */
export async function runStep(title, run, { note } = {}) {
  const started = Date.now();
  const step = { title, started, reportAt: started + FIRST_REPORT_MS, state: '' };
  if (note) printAbove(`  ${title}: ${note}`);
  running.add(step);
  timer ??= setInterval(draw, isTerminal ? DRAW_INTERVAL_MS : 1000);
  if (isTerminal) draw();
  const finish = (mark) => {
    printAbove(`  ${mark} ${title} ${dim(formatDuration(Date.now() - started))}`);
    running.delete(step);
    if (running.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
  try {
    const result = await run((text) => {
      step.state = text;
    });
    finish(green('✓'));
    return result;
  } catch (error) {
    finish(red('✗'));
    throw error;
  }
}

/**
 * Parses cargo's progress output. Set {@link CARGO_PROGRESS} in cargo's environment.
 * @param {(state: string) => void} update
 * @returns {(line: string) => boolean} for `onLine` of `run`; true for progress lines
 */
export function cargoProgress(update) {
  return (line) => {
    const bar = line.match(/^\s*(Building|Downloading)\s+\[[^\]]*\]\s+(\d+)\/(\d+)(?::\s*([^,(]+))?/);
    if (bar) {
      update(`${bar[2]} of ${bar[3]} crates${bar[4] ? `, ${bar[4].trim()}` : ''}`);
      return true;
    }
    const status = line.match(/^\s*(Updating|Downloading|Downloaded|Locking|Adding|Blocking)\b(.*)/);
    if (status) {
      update(`${status[1].toLowerCase()}${status[2]}`);
      return status[1] !== 'Blocking';
    }
    return /^\s*(Compiling|Checking|Fresh|Finished|Installing)\b/.test(line) || line.trim() === '';
  };
}

/** Makes cargo print its progress bar without a terminal. */
export const CARGO_PROGRESS = { CARGO_TERM_PROGRESS_WHEN: 'always', CARGO_TERM_PROGRESS_WIDTH: '100' };
