/** The npm that started this process, with `npm run` or `npx`. */

import { inspectProcess, isRunning } from './system-processes.mjs';

const CHECK_INTERVAL_MS = 500;

/**
 * Calls a function when the npm process that started this process ends. npm starts a program through a shell, and does not end the program
 * itself: a signal to npm ends only the shell, and if npm is killed, shell and program continue.
 * @param {() => void} onEnd
 */
export function onNpmEnd(onEnd) {
  const npmPid = findNpmPid();
  if (npmPid === undefined) return;
  const initialParent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === initialParent && isRunning(npmPid)) return;
    clearInterval(timer);
    onEnd();
  }, CHECK_INTERVAL_MS);
  timer.unref();
}

/**
 * Returns the process id of the npm that started this process. Usually npm is the parent of the shell between both processes. If the
 * shell replaced itself with the program (exec), npm is the parent of this process. Returns undefined if npm did not start this process.
 * @returns {number | undefined}
 */
export function findNpmPid() {
  if (!process.env.npm_lifecycle_event || process.platform === 'win32') return undefined;
  const { parent, name } = inspectProcess(process.ppid);
  if (name === undefined) return undefined;
  return /(^|\/)-?(ba|da|k|z|a)?sh$/.test(name) ? parent : process.ppid;
}
