/** Spawned sessions as child processes. */

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { SessionProcesses } from 'session-gateway-cli-kit/processes';
import { TOKEN } from '../../../packages/cli-kit/test/support/fake-hub.mjs';
import { program } from '../src/program.mjs';
import { hubAndFolders } from './support/program.mjs';

test('the start timeout does not kill a session that has started', async (t) => {
  const { hub, base, dir } = await hubAndFolders(t);
  const processes = new SessionProcesses({ program, token: TOKEN, home: path.join(base, 'home'), log: { info() {}, warn() {} } });
  t.after(() => processes.end());
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const args = [`--dir=${dir}`, `--hub=${hub.url}`, '--no-machine', '--auto-approve'];
  const { success, sessionId, error } = await processes.start(args, { readyTimeoutMs: 25_000 });
  assert.equal(success, true, error);
  t.mock.timers.tick(60_000);
  t.mock.timers.reset();
  const { ended } = processes.find(sessionId);
  // The output shows that the process still runs.
  hub.postMessage(sessionId, 'echo alive');
  await Promise.race([hub.untilReady(sessionId, 1), ended.then(() => assert.fail('The session was ended.'))]);
});
