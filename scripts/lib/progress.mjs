// Headings, elapsed times and the one line that moves while a long step runs.

const tty = process.stdout.isTTY === true;
const colour = tty && !process.env.NO_COLOR;
const paint = (code) => (text) => (colour ? `\x1b[${code}m${text}\x1b[0m` : text);

export const bold = paint(1);
export const dim = paint(2);
export const red = paint(31);
export const green = paint(32);
export const yellow = paint(33);

/** Without a terminal a long step says how far it is once in this many milliseconds. */
const REPORT_EVERY = 15_000;

/** @param {number} ms */
export function elapsed(ms) {
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`;
}

/**
 * Runs a step that says how far it is.
 * @template T
 * @param {string} title
 * @param {(update: (state: string) => void) => Promise<T>} work `update` tells what it is doing now
 * @param {object} [options]
 * @param {string} [options.note] printed once at the start, such as how long it will take
 * @returns {Promise<T>}
 */
export async function step(title, work, { note } = {}) {
  const started = Date.now();
  let state = '';
  let reported = started;
  const line = () => `  … ${title}, ${elapsed(Date.now() - started)}${state ? `: ${state}` : ''}`;
  const draw = () => {
    if (tty) {
      process.stdout.write(`\r\x1b[2K${dim(line().slice(0, (process.stdout.columns || 80) - 1))}`);
    } else if (Date.now() - reported >= REPORT_EVERY) {
      reported = Date.now();
      console.log(line());
    }
  };
  const clear = () => {
    if (tty) process.stdout.write('\r\x1b[2K');
  };

  if (note) console.log(`  ${title}: ${note}`);
  draw();
  const timer = setInterval(draw, tty ? 250 : 1000);
  try {
    const result = await work((text) => {
      state = text;
    });
    clear();
    console.log(`  ${green('✓')} ${title} ${dim(elapsed(Date.now() - started))}`);
    return result;
  } catch (error) {
    clear();
    console.log(`  ${red('✗')} ${title} ${dim(elapsed(Date.now() - started))}`);
    throw error;
  } finally {
    clearInterval(timer);
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
