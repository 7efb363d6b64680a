// Groups: a program and what it starts end with the process that started them, however that one ends.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import test from 'node:test';

const GROUP_MODULE = JSON.stringify(new URL('../lib/group.mjs', import.meta.url).href);

/** Starts a second one, which says its process id and runs on. */
const PROGRAM = `
  require('node:child_process').spawn(process.execPath, ['-e', 'console.log("started", process.pid); setInterval(() => {}, 1e6)'], { stdio: 'inherit' });
  setInterval(() => {}, 1e6);`;

/**
 * A process that starts a group, says the process ids of what it has started, and then does `next`.
 * @param {import('node:test').TestContext} t
 * @param {string} next in which `group` is the group
 */
async function starter(t, next) {
  const code = `
    const { startGroup } = await import(${GROUP_MODULE});
    const group = startGroup(process.execPath, ['-e', ${JSON.stringify(PROGRAM)}], { stdio: ['ignore', 'inherit', 'inherit'] });
    console.log('program', group.child.pid);
    ${next}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  // Its output ends when the last one who may write it is gone, so that no more is left of the group.
  const gone = once(child.stdout, 'close');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const pids = Object.fromEntries([(await lines.next()).value, (await lines.next()).value].map((line) => line.split(' ')));
  t.after(() => Object.values(pids).forEach((pid) => endIfThere(Number(pid))));
  return { child, gone, program: Number(pids.program), exited: once(child, 'exit') };
}

/** @param {number} pid */
function endIfThere(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

// Windows has no process groups.
test('what a process has started', { skip: process.platform === 'win32' }, async (t) => {
  await t.test('ends when the process is killed', async (t) => {
    const { child, gone } = await starter(t, 'process.stdin.resume();');
    child.kill('SIGKILL');
    await gone;
  });

  await t.test('ends when the process is killed and the program as well', async (t) => {
    const { child, gone, program } = await starter(t, 'process.stdin.resume();');
    process.kill(program, 'SIGSTOP');
    child.kill('SIGKILL');
    process.kill(program, 'SIGKILL');
    await gone;
  });

  await t.test('ends when the process ends by itself', async (t) => {
    const { child, gone, exited } = await starter(t, `process.stdin.on('end', () => process.exit(3)).resume();`);
    child.stdin.end();
    assert.deepEqual(await exited, [3, null]);
    await gone;
  });

  await t.test('keeps no process from its end, once it was killed', async (t) => {
    const { child, gone, exited } = await starter(t, `process.stdin.on('end', group.kill).resume(); await group.exited;`);
    child.stdin.end();
    assert.deepEqual(await exited, [0, null]);
    await gone;
  });
});
