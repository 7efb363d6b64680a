// Ctrl-C and its relatives: what was started is ended first, then the script itself.

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };

/** @type {(() => Promise<number | void>) | undefined} */
let handler;
let installed = false;
let underWay = false;
let since = 0;

/** npm passes on a Ctrl-C that the terminal has sent already: what comes so soon is the same key. */
const SAME_KEY_MS = 1000;

/** Whether a signal is ending this script: failures that follow from it are no news. */
export const isStopping = () => underWay;

/**
 * Sets what a signal does before the script ends. The last one set counts; a second signal does not wait for it.
 * @param {() => Promise<number | void>} stop may answer the exit code; by default it is the signal's own
 */
export function onStop(stop) {
  handler = stop;
  if (installed) return;
  installed = true;
  for (const [signal, code] of Object.entries(EXIT_CODES)) process.on(signal, () => end(code));
  endWithNpm();
}

/** @param {number} code */
async function end(code) {
  if (underWay && Date.now() - since < SAME_KEY_MS) return;
  if (underWay) process.exit(code);
  underWay = true;
  since = Date.now();
  process.exit((await handler?.()) ?? code);
}

/** An npm that is told to end passes that on to the shell between it and its script, not to the script. */
function endWithNpm() {
  if (!process.env.npm_lifecycle_event || process.platform === 'win32') return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    end(EXIT_CODES.SIGTERM);
  }, 1000);
  timer.unref();
}
