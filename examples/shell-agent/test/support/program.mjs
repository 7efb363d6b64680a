/** Starts the program as a child process. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { FakeHub, TOKEN } from '../../../../packages/cli-kit/test/support/fake-hub.mjs';
import { tempDir } from '../../../../packages/cli-kit/test/support/repository.mjs';

export const ENTRY = fileURLToPath(new URL('../../index.mjs', import.meta.url));

/**
 * Starts the program, and kills it when the test ends.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {string[]} args
 * @param {Record<string, string>} [options] environment variables, and `entry`
 */
export function startProgram(t, args, { entry = ENTRY, ...env } = {}) {
  const child = spawn(process.execPath, [entry, ...args], { env: { ...process.env, CLI_API_TOKEN: '', HUB_URL: '', ...env } });
  // `close`, because the last output may arrive after `exit`.
  const exit = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await exit;
  });
  const collected = { out: '', err: '' };
  child.stdout.on('data', (text) => (collected.out += text));
  child.stderr.on('data', (text) => (collected.err += text));
  /** Waits until standard error matches the pattern. */
  const untilLogged = async (pattern) => {
    while (!pattern.test(collected.err)) await once(child.stderr, 'data');
  };
  return { child, exit, collected, untilLogged };
}

/** An in-memory hub, and a temporary folder with the directories `served/sub` and `allowed`. */
export async function hubAndFolders(t) {
  const hub = await FakeHub.start();
  t.after(() => hub.stop());
  const base = tempDir(t);
  mkdirSync(path.join(base, 'served', 'sub'), { recursive: true });
  mkdirSync(path.join(base, 'allowed'));
  return { hub, base, dir: path.join(base, 'served') };
}

/**
 * The arguments and the environment to serve a directory of `hubAndFolders`.
 * @param {Pick<Awaited<ReturnType<typeof hubAndFolders>>, 'hub' | 'base' | 'dir'>} fixture
 * @param {string[]} args
 * @returns {[string[], Record<string, string>]}
 */
export function commandLine({ hub, base, dir }, args) {
  const env = { CLI_API_TOKEN: TOKEN, SHELL_AGENT_HOME: path.join(base, 'home') };
  return [['--dir', dir, '--hub', hub.url, ...args], env];
}

/**
 * Starts the program and waits until it is connected.
 * @returns the result of `startProgram`, and `ids` of the session and the machine
 */
export async function startAgent(t, fixture, args = []) {
  const { hub } = fixture;
  const started = startProgram(t, ...commandLine(fixture, args));
  /** @type {Record<string, string>} */
  const ids = {};
  for await (const line of createInterface({ input: started.child.stdout })) {
    const [kind, id] = line.split(' ');
    ids[kind] = id;
    if (ids.session && (ids.machine || args.includes('--no-machine'))) break;
  }
  const isRegistered = () => hub.registeredMethods(ids.machine).includes('spawnSession');
  if (ids.machine) await hub.waitUntil(isRegistered, 'the machine to register');
  return { ...started, ids };
}
