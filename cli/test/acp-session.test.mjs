/** How a session of an agent is opened. */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { AcpSession } from '../src/acp-session.mjs';
import { SCRIPTED_AGENT } from './support/setup.mjs';

/**
 * Opens a session of the scripted agent. Returns the modes that were set.
 * @param {import('node:test').TestContext} t
 * @param {{script: object, entry?: object, sessionId?: string, mustLoad?: boolean}} setup `entry`: of the table of agents
 */
async function open(t, { script, entry = {}, ...options }) {
  const home = tempDir(t);
  if (options.sessionId) writeFileSync(path.join(home, `${options.sessionId}.session`), '{}');
  const refuse = async () => ({});
  const session = await AcpSession.open({
    launch: /** @type {any} */ ({ name: 'x', title: 'X', argv: [process.execPath, SCRIPTED_AGENT], entry }),
    cwd: home,
    uploads: home,
    env: /** @type {any} */ ({ ...process.env, SCRIPT: JSON.stringify(script), SCRIPT_HOME: home }),
    signal: new AbortController().signal,
    log: { debug: () => {} },
    onUpdate: () => {},
    onPermission: refuse,
    onElicitation: refuse,
    ...options,
  });
  t.after(() => session.end());
  const calls = readFileSync(path.join(home, 'calls.jsonl'), 'utf8').trim().split('\n');
  return calls.map((line) => JSON.parse(line)).flatMap(({ method, params }) => (method === 'session/set_mode' ? [params.modeId] : []));
}

test('the initial mode of an agent is set if the agent has it and is not in it', async (t) => {
  const modes = (...ids) => ({ currentModeId: ids[0], availableModes: ids.map((id) => ({ id, name: id })) });
  const entry = { initialMode: 'default' };
  const table = [
    [modes('auto', 'default'), entry, ['default']],
    [modes('auto', 'default'), {}, []],
    [modes('default', 'auto'), entry, []],
    // Another version of the agent may not have the mode.
    [modes('auto', 'ask'), entry, []],
    [undefined, entry, []],
  ];
  for (const [offered, agent, expected] of table)
    assert.deepEqual(await open(t, { script: { newSession: { modes: offered } }, entry: agent }), expected);
});

test('the replay of a session is complete although the agent repeats its usage', { timeout: 30_000 }, async (t) => {
  const script = { initialize: { agentCapabilities: { loadSession: true } }, repeatsUsage: true };
  assert.deepEqual(await open(t, { script, sessionId: 'old', mustLoad: true }), []);
});
