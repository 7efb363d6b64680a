/** Starts the CLI as a process. */

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { withTimeout } from '../../../scripts/lib/await.mjs';
import { program } from '../../src/program.mjs';

/** The main module that runs the CLI as if the project had no `.dev.vars`. */
export const WITHOUT_DEV_VARS = fileURLToPath(new URL('./without-dev-vars.mjs', import.meta.url));

/**
 * Starts the CLI, which is killed after the test.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {string[]} args
 * @param {Record<string, string>} env
 * @param {import('node:child_process').StdioOptions} [stdio] may add an IPC channel
 * @param {string} [entry] the main module
 */
export function runCli(t, args, env, stdio = 'pipe', entry = program.entry) {
  const child = spawn(process.execPath, [entry, ...args], { env, stdio });
  const exit = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await exit;
  });
  const collected = { err: '' };
  child.stderr.on('data', (text) => (collected.err += text));
  return { child, exit, collected };
}

/** A Python program that runs a command at a pseudo-terminal: Node cannot open one. */
const PSEUDO_TERMINAL = 'import pty, sys; pty.spawn(sys.argv[1:])';

export const hasPseudoTerminal = spawnSync('python3', ['-c', 'import pty']).status === 0;

/** Starts a program at a terminal. `shown` returns all that the terminal shows. */
export function runAtTerminal(t, argv, env) {
  const child = spawn('python3', ['-c', PSEUDO_TERMINAL, ...argv], { env, stdio: 'pipe' });
  const exit = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await exit;
  });
  let shown = '';
  child.stdout.on('data', (text) => (shown += text));
  return { child, exit, shown: () => shown };
}

/** Starts the CLI, and waits until its machine is connected. The result also has the ids of the session and the machine. */
export async function startCli(t, hub, args, env, stdio, entry) {
  const started = runCli(t, args, env, stdio, entry);
  /** @type {Record<string, string>} */
  const ids = {};
  const readIds = async () => {
    for await (const line of createInterface({ input: started.child.stdout })) {
      const [kind, id] = line.split(' ');
      ids[kind] = id;
      if (ids.session && ids.machine) break;
    }
  };
  await withTimeout(readIds(), 'the ids that the CLI prints');
  if (!ids.machine) throw new Error(`The CLI ended: ${started.collected.err}`);
  await hub.waitUntil(() => hub.registeredMethods(ids.machine).includes('spawnSession'), 'the machine to register');
  return { ...started, ids };
}
