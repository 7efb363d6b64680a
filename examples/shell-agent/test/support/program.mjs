/** The program as a person starts it. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { FakeHub, TOKEN } from './fake-hub.mjs';
import { tempDir } from './repository.mjs';

export const ENTRY = fileURLToPath(new URL('../../index.mjs', import.meta.url));

/** Starts the program, which ends with the test. */
export function program(t, args, { entry = ENTRY, ...env } = {}) {
  const child = spawn(process.execPath, [entry, ...args], {
    env: { ...process.env, CLI_API_TOKEN: '', HUB_URL: '', ...env },
  });
  // Not `exit`: what it wrote last may come after that.
  const exit = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await exit;
  });
  const collected = { out: '', err: '' };
  child.stdout.on('data', (text) => (collected.out += text));
  child.stderr.on('data', (text) => (collected.err += text));
  /** Settled when the program has said something like this on standard error. */
  const says = async (pattern) => {
    while (!pattern.test(collected.err)) await once(child.stderr, 'data');
  };
  return { child, exit, collected, says };
}

/** A hub in memory, and a temporary folder with the directories `served/sub` and `allowed`. */
export async function hubAndFolders(t) {
  const hub = await FakeHub.start();
  t.after(() => hub.stop());
  const base = tempDir(t);
  mkdirSync(path.join(base, 'served', 'sub'), { recursive: true });
  mkdirSync(path.join(base, 'allowed'));
  return { hub, base, dir: path.join(base, 'served') };
}

/** Arguments and environment to serve a directory of that world. */
export function commandLine({ hub, base, dir }, args) {
  const env = { CLI_API_TOKEN: TOKEN, SHELL_AGENT_HOME: path.join(base, 'home') };
  return [['--dir', dir, '--hub', hub.url, ...args], env];
}

/**
 * Starts the program on the directory `served` with the home `home`, and waits until it is connected.
 * @returns its session's and machine's ids, as `ids`, and what `program` gives
 */
export async function agent(t, world, args = []) {
  const { hub } = world;
  const started = program(t, ...commandLine(world, args));
  const ids = {};
  for await (const line of createInterface({ input: started.child.stdout })) {
    const [kind, id] = line.split(' ');
    ids[kind] = id;
    if (ids.session && (ids.machine || args.includes('--no-machine'))) break;
  }
  if (ids.machine) await hub.until(() => hub.registered(ids.machine).includes('spawnSession'), 'the machine to register');
  return { ...started, ids };
}
