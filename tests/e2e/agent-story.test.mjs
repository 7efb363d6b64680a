/** The example agent with the real hub: start, commands, permission requests, and end. examples/shell-agent/test has more. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { openFeed } from './lib/channels.mjs';
import { isReady, partOf, readConversation, startAgent, waitForRequest } from './lib/agent.mjs';
import { Repository } from './lib/git.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub({ after });

/** Starts an agent in a new repository, and opens a feed of its session. */
async function startInRepository(t, namespace, args = []) {
  const repository = new Repository(t);
  repository.write('hello.txt', 'Hello from the repository\n');
  repository.commit('first');
  const agent = await startAgent(t, hub, { dir: repository.folder, namespace, args });
  const web = hub.web(namespace);
  const feed = await openFeed(t, web, 'socket', { sessionId: agent.sessionId });
  const send = (text) => web.post(`/api/sessions/${agent.sessionId}/messages`, { text });
  const readSession = () => web.readSession(agent.sessionId);
  return { repository, agent, web, feed, send, readSession };
}

for (const [how, args] of /** @type {any[]} */ ([
  ['the token with the upgrade', []],
  ['the token in CONNECT', ['--bridged']],
])) {
  test(`an agent runs commands and sends their output (${how})`, async (t) => {
    const namespace = `story${args.join('')}`;
    const { repository, agent, web, feed, send, readSession } = await startInRepository(t, namespace, [
      '--auto-approve',
      '--name',
      'My agent',
      ...args,
    ]);

    const session = await readSession();
    const { path: folder, name, machineId, installationId } = session.metadata;
    assert.deepEqual([session.active, session.tag, session.mode], [true, `${repository.folder}#${installationId}`, 'remote']);
    assert.deepEqual([folder, name, machineId], [repository.folder, 'My agent', agent.machineId]);
    const { machines } = (await web.get('/api/machines')).body;
    assert.deepEqual(pluck(machines, 'id', 'active'), [[agent.machineId, true]]);

    assert.equal((await send('cat hello.txt && echo done > result.txt')).status, 200);
    await feed.next(({ data }) => data?.thinking === true, 'the agent to think');
    const output = await feed.next(({ message }) => message && partOf(message)?.type === 'tool_result', 'output');
    assert.match(partOf(output.message).content, /Hello from the repository/);
    await feed.next(isReady, 'the agent to be ready');
    assert.equal((await readSession()).thinking, false);
    assert.equal(readFileSync(path.join(repository.folder, 'result.txt'), 'utf8'), 'done\n');
    const texts = await readConversation(web, agent.sessionId);
    assert.deepEqual(texts, ['> cat hello.txt && echo done > result.txt', '= Hello from the repository', 'Exit code 0.']);

    const status = (await web.get(`/api/sessions/${agent.sessionId}/git-status`)).body;
    assert.deepEqual(pluck(status.files, 'path', 'status'), [['result.txt', 'untracked']]);

    await send('/todo add Write the tests');
    await feed.next(({ data }) => data?.todos?.length === 1, 'the todo');
    await feed.next(isReady, 'the agent to be ready again');
    assert.deepEqual(pluck((await readSession()).todos, 'content', 'status'), [['Write the tests', 'pending']]);
    const [summary] = (await web.get('/api/sessions')).body.sessions;
    assert.deepEqual(summary.todoProgress, { completed: 0, total: 1 });

    await send('exit 3');
    await feed.next(isReady, 'the agent to be ready once more');
    assert.equal((await readConversation(web, agent.sessionId)).at(-1), 'Exit code 3.');

    assert.deepEqual(await agent.end(), [0, null]);
    await feed.next(({ data }) => data?.active === false, 'the end of the session');
    const ended = await readSession();
    assert.deepEqual([ended.active, ended.thinking, ended.metadata.lifecycleState], [false, false, 'completed']);
    assert.equal((await send('too late')).status, 409);
  });
}

test('an agent runs a command only after its permission request is approved', async (t) => {
  const { repository, agent, web, feed, send, readSession } = await startInRepository(t, 'careful', ['--no-machine']);
  const ask = async (command) => {
    assert.equal((await send(command)).status, 200);
    const id = await waitForRequest(feed, command);
    const [summary] = (await web.get('/api/sessions')).body.sessions;
    assert.equal(summary.pendingRequestsCount, 1);
    return id;
  };
  const postAnswer = (id, verb, body = {}) => web.post(`/api/sessions/${agent.sessionId}/permissions/${id}/${verb}`, body);
  const readStatus = async (id) => (await readSession()).agentState.completedRequests[id].status;

  const approvedId = await ask('touch wanted.txt');
  assert.deepEqual((await postAnswer(approvedId, 'approve')).body, { ok: true });
  await feed.next(isReady, 'the agent to be ready');
  assert.equal(readFileSync(path.join(repository.folder, 'wanted.txt'), 'utf8'), '');
  assert.equal(await readStatus(approvedId), 'approved');

  const deniedId = await ask('touch refused.txt');
  assert.deepEqual((await postAnswer(deniedId, 'deny', { reason: 'Not this one' })).body, { ok: true });
  await feed.next(isReady, 'the agent to be ready again');
  assert.equal(await readStatus(deniedId), 'denied');
  assert.deepEqual(await readConversation(web, agent.sessionId), [
    '> touch wanted.txt',
    'Exit code 0.',
    '> touch refused.txt',
    '= Denied.\nReason: Not this one',
  ]);

  const pendingId = await ask('touch never.txt');
  await agent.end();
  await feed.next((event) => event.data?.active === false, 'the end of the session');
  assert.equal(await readStatus(pendingId), 'canceled');
  assert.deepEqual((await readSession()).agentState.requests, {});
  for (const file of ['refused.txt', 'never.txt']) assert.equal(existsSync(path.join(repository.folder, file)), false, file);
});
