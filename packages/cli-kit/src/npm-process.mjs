/** The npm that started this process, with `npm run` or `npx`. */

import { inspectProcess, isRunning } from './system-processes.mjs';

const CHECK_INTERVAL_MS = 500;

/**
 * Calls a function when the npm process that started this process ends. npm starts a program through a shell. A signal to npm ends the
 * shell, but not the program. If npm is killed, shell and program continue.
 * @param {() => void} onEnd
 */
export function onNpmEnd(onEnd) {
  const npm = npmProcess();
  if (npm === undefined) return;
  const shell = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === shell && isRunning(npm)) return;
    clearInterval(timer);
    onEnd();
  }, CHECK_INTERVAL_MS);
  timer.unref();
}

/**
 * Returns the process id of the npm that started this process: the parent of the shell between them, or the parent of this process if
 * the shell replaced itself with the program (exec). Returns undefined if npm did not start this process.
 * @returns {number | undefined}
 */
export function npmProcess() {
  if (!process.env.npm_lifecycle_event || process.platform === 'win32') return undefined;
  const { parent, name } = inspectProcess(process.ppid);
  if (name === undefined) return undefined;
  return /(^|\/)-?(ba|da|k|z|a)?sh$/.test(name) ? parent : process.ppid;
}
