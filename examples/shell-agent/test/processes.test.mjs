/** Sessions as processes of their own. */

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { SessionProcesses } from '../src/processes.mjs';
import { TOKEN } from './support/fake-hub.mjs';
import { hubAndFolders } from './support/program.mjs';

test('a session that is up lives on when the time to come up is over', async (t) => {
  const { hub, base, dir } = await hubAndFolders(t);
  const processes = new SessionProcesses({ token: TOKEN, home: path.join(base, 'home'), log: { info() {} } });
  t.after(() => processes.end());
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const args = [`--dir=${dir}`, `--hub=${hub.url}`, '--no-machine', '--auto-approve'];
  const { success, sessionId, error } = await processes.start(args, { readyMs: 25_000 });
  assert.equal(success, true, error);
  t.mock.timers.tick(60_000);
  t.mock.timers.reset();
  const { gone } = processes.serving(sessionId);
  // What the process says after that shows that nobody killed it.
  hub.say(sessionId, 'echo alive');
  await Promise.race([hub.ready(sessionId, 1), gone.then(() => assert.fail('The session was ended.'))]);
});
