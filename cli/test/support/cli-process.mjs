/** Starts the CLI as a process. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { program } from '../../src/program.mjs';

/**
 * Starts the CLI, which is killed after the test.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {string[]} args
 * @param {Record<string, string>} env
 * @param {import('node:child_process').StdioOptions} [stdio] may add an IPC channel
 */
export function runCli(t, args, env, stdio = 'pipe') {
  const child = spawn(process.execPath, [program.entry, ...args], { env, stdio });
  const exit = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await exit;
  });
  const collected = { err: '' };
  child.stderr.on('data', (text) => (collected.err += text));
  return { child, exit, collected };
}

/** Starts the CLI, and waits until its machine is connected. The result also has the ids of the session and the machine. */
export async function startCli(t, hub, args, env, stdio) {
  const started = runCli(t, args, env, stdio);
  /** @type {Record<string, string>} */
  const ids = {};
  for await (const line of createInterface({ input: started.child.stdout })) {
    const [kind, id] = line.split(' ');
    ids[kind] = id;
    if (ids.session && ids.machine) break;
  }
  if (!ids.machine) throw new Error(`The CLI ended: ${started.collected.err}`);
  await hub.waitUntil(() => hub.registeredMethods(ids.machine).includes('spawnSession'), 'the machine to register');
  return { ...started, ids };
}
