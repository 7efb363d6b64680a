// Process groups: a program and its child processes end when the process that started them ends or is killed.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import test from 'node:test';

const GROUP_MODULE = JSON.stringify(new URL('../lib/group.mjs', import.meta.url).href);

/** A program that starts a child process, which prints its process id and keeps running. */
const PROGRAM = `
  require('node:child_process').spawn(process.execPath, ['-e', 'console.log("started", process.pid); setInterval(() => {}, 1e6)'], { stdio: 'inherit' });
  setInterval(() => {}, 1e6);`;

/**
 * Starts a process that starts a group, prints the process ids of the group, and then runs `ownerCode`.
 * @param {import('node:test').TestContext} t
 * @param {string} ownerCode code that uses `group`
 */
async function startOwner(t, ownerCode) {
  const code = `
    const { startGroup } = await import(${GROUP_MODULE});
    const group = startGroup(process.execPath, ['-e', ${JSON.stringify(PROGRAM)}], { stdio: ['ignore', 'inherit', 'inherit'] });
    console.log('program', group.child.pid);
    ${ownerCode}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  // The pipe closes when the last process that can write to it has ended: then the whole group has ended.
  const groupEnded = once(child.stdout, 'close');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const pids = Object.fromEntries([(await lines.next()).value, (await lines.next()).value].map((line) => line.split(' ')));
  t.after(() => Object.values(pids).forEach((pid) => killIfRunning(Number(pid))));
  return { child, groupEnded, program: Number(pids.program), exited: once(child, 'exit') };
}

/** @param {number} pid */
function killIfRunning(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

// Windows has no process groups.
test('a process group', { skip: process.platform === 'win32' }, async (t) => {
  await t.test('ends when its owner is killed', async (t) => {
    const { child, groupEnded } = await startOwner(t, 'process.stdin.resume();');
    child.kill('SIGKILL');
    await groupEnded;
  });

  await t.test('ends when its owner and the program are killed', async (t) => {
    const { child, groupEnded, program } = await startOwner(t, 'process.stdin.resume();');
    process.kill(program, 'SIGSTOP');
    child.kill('SIGKILL');
    process.kill(program, 'SIGKILL');
    await groupEnded;
  });

  await t.test('ends when its owner exits', async (t) => {
    const { child, groupEnded, exited } = await startOwner(t, `process.stdin.on('end', () => process.exit(3)).resume();`);
    child.stdin.end();
    assert.deepEqual(await exited, [3, null]);
    await groupEnded;
  });

  await t.test('does not keep its owner running after `kill`', async (t) => {
    const { child, groupEnded, exited } = await startOwner(t, `process.stdin.on('end', group.kill).resume(); await group.exited;`);
    child.stdin.end();
    assert.deepEqual(await exited, [0, null]);
    await groupEnded;
  });
});
