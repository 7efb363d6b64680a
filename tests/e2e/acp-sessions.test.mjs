/**
 * A session that an agent already has is imported, configured, continued in the agent's terminal program, and forked. The test uses the
 * real hub, the CLI for coding agents, and a scripted agent.
 */

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { EFFORT } from '../../cli/test/support/effort.mjs';
import { writeScriptedAgent } from '../../cli/test/support/setup.mjs';
import { eventually } from '../../scripts/lib/await.mjs';
import { partOf, startAgent } from './lib/agent.mjs';
import { start } from './lib/children.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { ROOT, startHub } from './lib/hub.mjs';

const hub = await startHub({ after });

const ENTRY = path.join(ROOT, 'cli', 'index.mjs');

/** A terminal program: adds a line to the agent's conversation and ends. */
const TERMINAL_PROGRAM = `#!/bin/sh
echo "$*" > "$SCRIPT_HOME/arguments"
echo "Typed." >> "$SCRIPT_HOME/conversation"
`;

/** The messages of the user and the texts of the agent. */
const readTexts = async (web, id) =>
  (await web.readHistory(id)).flatMap((message) => {
    const { role, content } = message.content;
    return role === 'user' ? `You: ${content.text}` : (partOf(message)?.text ?? []);
  });

test('a session of an agent is imported, set to another effort, continued in a terminal, and forked', async (t) => {
  const [home, base] = [temporaryFolder(t), temporaryFolder(t)];
  const [dir, bin, scriptHome] = ['served', 'bin', 'script'].map((name) => path.join(base, name));
  for (const folder of [dir, bin, scriptHome]) mkdirSync(folder);
  writeScriptedAgent(bin, 'claude-agent-acp');
  writeFileSync(path.join(bin, 'claude'), TERMINAL_PROGRAM, { mode: 0o755 });
  const script = {
    initialize: { agentCapabilities: { loadSession: true, sessionCapabilities: { resume: {}, list: {}, fork: {} } } },
    newSession: { configOptions: [EFFORT] },
    refusedValues: ['endless'],
    sessions: [[{ sessionId: 'old', cwd: dir, title: 'An old session', updatedAt: '2026-11-26T10:00:00Z' }]],
    history: { turns: 2 },
  };
  writeFileSync(path.join(scriptHome, 'old.session'), JSON.stringify(script.newSession));
  const env = { PATH: `${bin}:/usr/bin:/bin`, HOME: base, SCRIPT: JSON.stringify(script), SCRIPT_HOME: scriptHome };
  const namespace = 'sessions';
  const { machineId } = await startAgent(t, hub, { dir, home, namespace, entry: ENTRY, env, args: ['--agent', 'claude'] });
  const web = hub.web(namespace);
  const sessionsPath = `/api/machines/${machineId}/agent-sessions`;
  const list = async () => (await web.get(`${sessionsPath}?agent=claude`)).body;
  const untilTexts = async (id, texts) => {
    let read;
    const isEqual = async () => JSON.stringify((read = await readTexts(web, id))) === JSON.stringify(texts);
    await eventually(isEqual, 'the texts').catch((error) => assert.deepEqual(read, texts, error.message));
  };

  const { title, directory, updatedAt, sessionId } = (await list()).sessions[0];
  assert.deepEqual([title, directory, updatedAt, sessionId], ['An old session', dir, Date.parse('2026-11-26T10:00:00Z'), undefined]);
  const imported = (await web.post(sessionsPath, { agent: 'claude', id: 'old' })).body;
  assert.equal(imported.success, true, imported.error);
  const id = imported.sessionId;
  const history = ['You: Question 1', 'Answer 1', 'You: Question 2', 'Answer 2'];
  await untilTexts(id, history);
  await eventually(async () => (await web.readSession(id)).metadata.terminalCommand?.endsWith('claude --resume old'), 'the command');
  assert.equal((await list()).sessions[0].sessionId, id);
  assert.deepEqual((await web.post(sessionsPath, { agent: 'claude', id: 'old' })).body, { success: true, sessionId: id });

  const setEffort = (value) => web.post(`/api/sessions/${id}/options`, { id: 'effort', value });
  assert.equal((await setEffort('high')).status, 200);
  const effort = async () => (await web.readSession(id)).metadata.options.find((option) => option.id === 'effort').value;
  await eventually(async () => (await effort()) === 'high', 'the effort');
  const refused = await setEffort('endless');
  assert.deepEqual([refused.status, refused.body.code], [409, 'option_not_applied'], refused.text);

  const options = { env: { CLI_API_TOKEN: hub.token(namespace), SESSION_GATEWAY_HOME: home, ...env } };
  const terminal = start(t, 'attach', process.execPath, [ENTRY, 'attach', id, '--hub', hub.url], options);
  await terminal.exited;
  assert.equal(readFileSync(path.join(scriptHome, 'arguments'), 'utf8'), '--resume old\n');
  const continued = [...history, 'You: Typed.', 'Answer to: Typed.'];
  await untilTexts(id, continued);
  await eventually(async () => (await web.readSession(id)).metadata.lifecycleState === 'running', 'the session to be back');
  assert.equal(await effort(), 'high');

  const before = await web.readHistory(id);
  const { seq } = before.find(({ content }) => content.content.text === 'Question 2');
  const forked = (await web.post(`/api/sessions/${id}/fork`, { seq })).body;
  assert.equal(forked.success, true, JSON.stringify(forked));
  await eventually(async () => (await readTexts(web, forked.sessionId)).length >= 3, 'the history of the fork');
  assert.deepEqual((await readTexts(web, forked.sessionId)).slice(0, 2), history.slice(0, 2));
  assert.deepEqual((await web.readSession(forked.sessionId)).metadata.forkedFrom, { sessionId: id, seq });
  assert.deepEqual(await web.readHistory(id), before);
});
