/** The terminal program that an earlier process of the session handed the session to. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { THIS_HOST } from 'session-gateway-cli-kit/lock';
import { inspectProcess } from 'session-gateway-cli-kit/system-processes';
import { TerminalUse } from '../src/terminal-use.mjs';

/** Returns whether the agent takes over at once from a program with the id of this process. */
async function isTakenBack(host) {
  const terminal = { pid: process.pid, startTime: inspectProcess(process.pid).startTime, ...(host && { host }) };
  let isTaken = false;
  const use = new TerminalUse(
    /** @type {any} */ ({
      state: { saved: { terminal } },
      save: () => {},
      log: { debug: () => {} },
      takeBack: async () => {
        isTaken = true;
      },
      switchTo: () => {},
    }),
  );
  use.resume();
  await setImmediate();
  use.close();
  return isTaken;
}

test('a terminal program of this computer keeps the session while its process runs', async () => {
  assert.equal(await isTakenBack(THIS_HOST), false);
  assert.equal(await isTakenBack({ ...THIS_HOST, name: 'earlier-name' }), false);
  assert.equal(await isTakenBack(undefined), false, 'of an earlier version');
});

test('the id of a terminal program of another computer, container or start of the computer names no process here', async () => {
  for (const change of [{ processes: 'pid:[1]' }, { boot: 'another' }])
    assert.equal(await isTakenBack({ ...THIS_HOST, ...change }), true, JSON.stringify(change));
});
