/** Which errors of a resume mean that the agent has lost the session. */

import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { isInUse, isUnknownSession } from '../src/resume-errors.mjs';
import { eventually } from '../../packages/cli-kit/test/support/wait.mjs';
import { putScriptedAgent, setUp } from './support/setup.mjs';

const RESUMES = { initialize: { agentCapabilities: { sessionCapabilities: { resume: {} } } } };

test('the reasons of the agents are told apart', () => {
  const error = (message, more = {}) => Object.assign(new Error(message), more);
  const unknown = [
    error('Session not found: x'),
    error('Resource not found: x', { code: -32002 }),
    error('Internal error', { data: { details: 'no rollout found for thread id 1' } }),
    error('No conversation found with session ID: x'),
    error('No previous sessions found for this project.'),
    error('Invalid session identifier "x".'),
    error('Session x does not exist'),
  ];
  for (const each of unknown) assert.deepEqual([isUnknownSession(each), isInUse(each)], [true, false], each.message);
  const inUse = [
    error('thread 1 already has an active writer'),
    error('Internal error', { data: { details: 'failed: thread x already has an active writer' } }),
    error('The session is in use by another process'),
    error('Session x is locked'),
    error('Session x is in use by another process', { code: -32002 }),
  ];
  for (const each of inUse) assert.deepEqual([isUnknownSession(each), isInUse(each)], [false, true], each.message);
  const others = [
    error('Internal error'),
    error('EACCES: permission denied'),
    error('Failed to read config.toml'),
    error('spawn rg ENOENT'),
  ];
  for (const each of others) assert.deepEqual([isUnknownSession(each), isInUse(each)], [false, false], each.message);
});

test('a session that another program uses is waited for, and the prompt follows', async (t) => {
  const { hub, calls, prompt, scriptHome, start } = await setUp(t, RESUMES);
  const first = await start();
  prompt(first.session.id, [{ say: 'before' }]);
  await hub.untilReady(first.session.id, 1);
  await first.stop();
  const refusal = path.join(scriptHome, 'refusal');
  writeFileSync(refusal, 'thread 1 already has an active writer');
  const { session } = await start({ agentStartTimeoutMs: 1, inUseIntervalMs: 10 });
  prompt(session.id, [{ say: 'after' }]);
  await eventually(() => calls('session/resume').length > 2, 'more attempts');
  const notice = hub.transcript(session.id).at(-1);
  assert.match(notice, /^node cannot open its session yet, because another program uses it: thread 1 already has an active writer\. /);
  rmSync(refusal);
  await hub.untilReady(session.id, 2);
  assert.deepEqual(hub.transcript(session.id).slice(-3), [notice, 'after', '(ready)']);
  assert.equal(calls('session/new').length, 1);
});

test('a session that cannot be resumed for another reason is kept, and the next message tries again', async (t) => {
  const { hub, calls, prompt, scriptHome, start } = await setUp(t, RESUMES);
  const first = await start();
  prompt(first.session.id, [{ say: 'before' }]);
  await hub.untilReady(first.session.id, 1);
  const { sessionId } = calls('session/prompt')[0];
  await first.stop();
  const refusal = path.join(scriptHome, 'refusal');
  writeFileSync(refusal, 'The disk is full.');
  const { session } = await start();
  const reason = `node cannot resume its session ${sessionId}: The disk is full. The session is kept, and the next message tries again.`;
  await hub.waitUntil(() => hub.transcript(session.id).at(-1).startsWith(reason), 'the reason');
  rmSync(refusal);
  prompt(session.id, [{ say: 'after' }]);
  await hub.untilReady(session.id, 2);
  assert.deepEqual(hub.transcript(session.id).slice(-2), ['after', '(ready)']);
  assert.deepEqual([calls('session/new').length, calls('session/prompt')[1].sessionId], [1, sessionId]);
});

test('if the error does not tell that the agent has lost the session, its list of sessions does', async (t) => {
  const initialize = { agentCapabilities: { sessionCapabilities: { resume: {}, list: {} } } };
  const { hub, calls, prompt, scriptHome, setScript, start } = await setUp(t, { initialize });
  putScriptedAgent(t, 'opencode');
  const startOpencode = () => start({ command: undefined, agent: 'opencode', flavor: 'epsilon' });
  const first = await startOpencode();
  prompt(first.session.id, [{ say: 'before' }]);
  await hub.untilReady(first.session.id, 1);
  const { sessionId } = calls('session/prompt')[0];
  await first.stop();
  writeFileSync(path.join(scriptHome, 'refusal'), 'OpenCode service failure');
  setScript({ initialize, sessions: [[{ sessionId: 'other', cwd: '/' }], [{ sessionId, cwd: '/' }]] });
  const kept = await startOpencode();
  await hub.waitUntil(() => /The session is kept/.test(hub.transcript(kept.session.id).at(-1)), 'the reason');
  await kept.stop();
  setScript({ initialize, sessions: [[{ sessionId: 'other', cwd: '/' }]] });
  const lost = await startOpencode();
  prompt(lost.session.id, [{ say: 'after' }]);
  await hub.untilReady(lost.session.id, 2);
  assert.equal(calls('session/new').length, 2);
});
