/** The CLI for coding agents (`cli`) with the real hub, and with a scripted agent that speaks the Agent Client Protocol. */

import assert from 'node:assert/strict';
import path from 'node:path';
import { after, test } from 'node:test';
import { SCRIPTED_AGENT } from '../../cli/test/support/setup.mjs';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { openFeed } from './lib/channels.mjs';
import { isReady, readConversation, startAgent, waitForRequest } from './lib/agent.mjs';
import { eventually } from '../../scripts/lib/await.mjs';
import { Repository, temporaryFolder } from './lib/git.mjs';
import { ROOT, startHub } from './lib/hub.mjs';

const hub = await startHub({ after });

const SCRIPT = {
  initialize: { agentCapabilities: { loadSession: true, sessionCapabilities: { resume: {} } } },
  newSession: {
    modes: {
      currentModeId: 'ask',
      availableModes: [
        { id: 'ask', name: 'Ask' },
        { id: 'reader', name: 'Reader' },
      ],
    },
  },
};

test('a coding agent is prompted, approved, set to its own mode, archived and resumed', async (t) => {
  const repository = new Repository(t);
  repository.write('a.txt', 'one\n');
  repository.commit('first');
  const { sessionId: id, machineId } = await startAgent(t, hub, {
    dir: repository.folder,
    namespace: 'acp',
    entry: path.join(ROOT, 'cli', 'index.mjs'),
    env: { SCRIPT: JSON.stringify(SCRIPT), SCRIPT_HOME: temporaryFolder(t) },
    args: ['--', process.execPath, SCRIPTED_AGENT],
  });
  const web = hub.web('acp');
  const feed = await openFeed(t, web, 'socket', { sessionId: id });
  const postAction = (action, body = {}) => web.post(`/api/sessions/${id}/${action}`, body);
  const sendPrompt = (steps) => postAction('messages', { text: JSON.stringify(steps) });

  const toolCall = { toolCallId: 'call-1', title: 'ls', kind: 'execute', status: 'pending', rawInput: { command: 'ls' } };
  const options = [
    { optionId: 'always', kind: 'allow_always', name: 'Always' },
    { optionId: 'once', kind: 'allow_once', name: 'Once' },
  ];
  const content = [{ type: 'content', content: { type: 'text', text: 'a.txt\n' } }];
  await sendPrompt([
    { say: 'I will look.' },
    { update: { sessionUpdate: 'plan', entries: [{ content: 'Look', status: 'in_progress', priority: 'high' }] } },
    { update: { sessionUpdate: 'tool_call', ...toolCall } },
    { ask: { toolCall, options } },
    { update: { sessionUpdate: 'tool_call_update', toolCallId: 'call-1', status: 'completed', content } },
    { say: 'Done.' },
  ]);
  await feed.next(({ data }) => data?.agentState?.requests?.['call-1'], 'the permission request');
  assert.deepEqual((await postAction('permissions/call-1/approve')).body, { ok: true });
  await feed.next(isReady, 'the agent to be ready');
  assert.deepEqual(await readConversation(web, id), ['I will look.', '> ls', '= a.txt', 'Done.']);
  const session = await web.readSession(id);
  assert.deepEqual(pluck(session.todos, 'content', 'status'), [['Look', 'in_progress']]);
  assert.equal(session.agentState.completedRequests['call-1'].status, 'approved');
  assert.deepEqual(pluck(session.metadata.modes, 'id'), ['ask', 'reader', 'yolo']);

  assert.deepEqual((await postAction('permission-mode', { mode: 'reader' })).status, 200);
  assert.equal((await web.readSession(id)).permissionMode, 'reader');
  assert.equal((await postAction('permission-mode', { mode: 'plan' })).body.code, 'invalid_field');

  await sendPrompt([{ say: 'Working.' }, { wait: 60_000 }]);
  const { text, kind } = await feed.next(({ type }) => type === 'message-delta', 'the live text');
  assert.deepEqual([text, kind], ['Working.', 'text']);
  assert.equal((await postAction('abort')).status, 200);
  await feed.next(isReady, 'the end of the turn');

  const { nodeSessionId: agentId, flavor } = (await web.readSession(id)).metadata;
  assert.equal(flavor, 'node');
  assert.match(agentId, /^scripted-/);
  assert.equal((await postAction('archive')).status, 200);
  await feed.next(({ data }) => data?.metadata?.lifecycleState === 'archived', 'it to be archived');
  assert.deepEqual((await postAction('resume')).body, { success: true, sessionId: id });
  const resumed = await web.readSession(id);
  assert.deepEqual([resumed.active, resumed.metadata.machineId, resumed.metadata.nodeSessionId], [true, machineId, agentId]);
  await sendPrompt([{ say: 'Back.' }]);
  await feed.next(isReady, 'the agent to be ready again');
  assert.equal((await readConversation(web, id)).at(-1), 'Back.');
  assert.equal((await web.readSession(id)).permissionMode, 'reader');
});

test('a permission request waits while the hub restarts', async (t) => {
  const { sessionId: id } = await startAgent(t, hub, {
    dir: temporaryFolder(t),
    namespace: 'waits',
    entry: path.join(ROOT, 'cli', 'index.mjs'),
    env: { SCRIPT: '{}', SCRIPT_HOME: temporaryFolder(t) },
    args: ['--no-machine', '--', process.execPath, SCRIPTED_AGENT],
  });
  const web = hub.web('waits');
  const before = await web.openSocket({ sessionId: id });
  const toolCall = { toolCallId: 'call-1', title: 'ls', kind: 'execute', status: 'pending', rawInput: { command: 'ls' } };
  const options = [{ optionId: 'once', kind: 'allow_once', name: 'Once' }];
  const text = JSON.stringify([{ ask: { toolCall, options } }, { say: 'Allowed.' }]);
  await web.post(`/api/sessions/${id}/messages`, { text });
  await waitForRequest(before, 'ls');
  before.close();
  await hub.restart();
  await openFeed(t, web, 'socket', { sessionId: id });
  await eventually(async () => (await web.post(`/api/sessions/${id}/permissions/call-1/approve`, {})).status === 200, 'the answer');
  await eventually(async () => (await readConversation(web, id)).includes('Allowed.'), 'the end of the turn');
  assert.equal((await web.readSession(id)).agentState.completedRequests['call-1'].status, 'approved');
});
