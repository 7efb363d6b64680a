/** Spawned sessions of the example agent with the real hub: worktree, archive, resume, and delete. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { openFeed } from './lib/channels.mjs';
import { isReady, readConversation, startAgent, waitForRequest } from './lib/agent.mjs';
import { Repository } from './lib/git.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub({ after });

/** Creates a repository with one commit, and starts an agent with a machine in it. */
async function startInRepository(t, namespace, args = []) {
  const repository = new Repository(t);
  repository.write('notes.txt', 'one\n');
  repository.commit('first');
  const agent = await startAgent(t, hub, { dir: repository.folder, namespace, args });
  const web = hub.web(namespace);
  const postAction = (id, action, body) => web.post(`/api/sessions/${id}/${action}`, body);
  const requestSpawn = (body) => web.post(`/api/machines/${agent.machineId}/spawn`, { directory: repository.folder, ...body });
  const listSessions = async (query = '') => (await web.get(`/api/sessions${query}`)).body.sessions.map(({ id }) => id);
  return { repository, agent, web, postAction, requestSpawn, listSessions };
}

test('a session in a worktree is spawned, used, archived, resumed and deleted', async (t) => {
  const { repository, agent, web, postAction, requestSpawn, listSessions } = await startInRepository(t, 'worktree');
  const namespaceFeed = await openFeed(t, web, 'socket', { all: 'true' });

  const spawned = await requestSpawn({ sessionType: 'worktree', worktreeName: 'fix-notes' });
  assert.deepEqual([spawned.status, spawned.body.success], [200, true], spawned.text);
  const id = spawned.body.sessionId;
  await namespaceFeed.nextEvent('session-added', id);
  const worktreePath = path.join(repository.folder, '.worktrees', 'fix-notes');
  const isCheckedOut = () => repository.git('worktree', 'list').includes(`${worktreePath} `);
  assert.ok(isCheckedOut());
  const startedSession = await web.readSession(id);
  assert.equal(startedSession.active, true);
  const { createdAt, ...worktree } = startedSession.metadata.worktree;
  assert.deepEqual(worktree, { basePath: repository.folder, branch: 'fix-notes', name: 'fix-notes', worktreePath });
  assert.equal(typeof createdAt, 'number');
  assert.deepEqual([startedSession.metadata.path, startedSession.metadata.machineId], [worktreePath, agent.machineId]);
  assert.deepEqual((await listSessions()).sort(), [agent.sessionId, id].sort());

  const feed = await openFeed(t, web, 'socket', { sessionId: id });
  const runApproved = async (command, attachments) => {
    assert.equal((await postAction(id, 'messages', { text: command, attachments })).status, 200);
    const request = await waitForRequest(feed, command);
    assert.deepEqual((await postAction(id, `permissions/${request}/approve`, {})).body, { ok: true });
    await feed.next(isReady, 'the agent to be ready');
  };
  await runApproved('export WHO=me; echo two >> notes.txt; cat notes.txt');
  const before = ['> export WHO=me; echo two >> notes.txt; cat notes.txt', '= one\ntwo', 'Exit code 0.'];
  assert.deepEqual(await readConversation(web, id), before);
  const status = (await web.get(`/api/sessions/${id}/git-status`)).body;
  assert.deepEqual([status.branch, status.files.map((file) => [file.path, file.status])], ['fix-notes', [['notes.txt', 'modified']]]);
  const { files } = (await web.get(`/api/sessions/${id}/git-diff-numstat`)).body;
  assert.deepEqual(files, [{ path: 'notes.txt', added: 1, removed: 0 }]);
  assert.match((await web.get(`/api/sessions/${id}/git-diff-file?path=notes.txt`)).body.diff, /^\+two$/m);
  assert.deepEqual((await web.get(`/api/sessions/${agent.sessionId}/git-status`)).body.files, []);

  const upload = await postAction(id, 'upload', { filename: 'more.txt', mimeType: 'text/plain', content: btoa('three\n') });
  assert.deepEqual([upload.status, upload.body.success], [200, true], upload.text);
  const attachment = { id: 'one', filename: 'more.txt', mimeType: 'text/plain', size: 6, path: upload.body.path };
  await runApproved('cat "$ATTACHMENTS" >> notes.txt; cat notes.txt', [attachment]);
  before.push(
    `Attachments ($ATTACHMENTS has their paths):\n- more.txt (6 bytes): ${upload.body.path}`,
    '> cat "$ATTACHMENTS" >> notes.txt; cat notes.txt',
    '= one\ntwo\nthree',
    'Exit code 0.',
  );
  assert.deepEqual(await readConversation(web, id), before);

  assert.deepEqual((await postAction(id, 'archive', { reason: 'Done for today' })).body, { ok: true });
  await agent.lines.first((line) => line.includes(`session ${id} ended`), 'the end of its process');
  await namespaceFeed.next((event) => event.sessionId === id && event.data?.metadata?.lifecycleState === 'archived', 'it to be archived');
  const archived = await web.readSession(id);
  assert.deepEqual([archived.active, archived.metadata.archiveReason], [false, 'Done for today']);
  assert.deepEqual([await listSessions(), await listSessions('?archived=only')], [[agent.sessionId], [id]]);
  const { machines } = (await web.get('/api/machines')).body;
  assert.deepEqual(pluck(machines, 'id'), [agent.machineId]);
  const history = await web.readHistory(id);

  assert.deepEqual((await postAction(id, 'resume')).body, { success: true, sessionId: id });
  const resumed = await web.readSession(id);
  assert.deepEqual([resumed.active, resumed.metadata.archivedBy], [true, undefined]);
  assert.equal(resumed.metadata.alphaSessionId, startedSession.metadata.alphaSessionId);
  assert.deepEqual(resumed.metadata.worktree, startedSession.metadata.worktree);
  await runApproved('echo $WHO');
  assert.deepEqual((await postAction(id, 'upload/delete', { path: upload.body.path })).body, { success: true });
  assert.equal(existsSync(upload.body.path), false);
  assert.deepEqual((await web.readHistory(id)).slice(0, history.length), history);
  const seqs = (await web.readHistory(id)).map(({ seq }) => seq);
  assert.deepEqual(
    seqs,
    seqs.map((_, index) => index + 1),
  );
  const resumedText = `Resumed: the shell continues in ${worktreePath}, with WHO as set before.`;
  assert.deepEqual(await readConversation(web, id), [...before, resumedText, '> echo $WHO', '= me', 'Exit code 0.']);

  assert.equal((await web.delete(`/api/sessions/${id}`)).status, 409);
  assert.equal((await postAction(id, 'archive')).status, 200);
  assert.deepEqual((await web.delete(`/api/sessions/${id}`)).body, { ok: true });
  await namespaceFeed.nextEvent('session-removed', id);
  assert.equal((await web.get(`/api/sessions/${id}`)).status, 404);
  // Deleting a session keeps its worktree.
  assert.ok(isCheckedOut());
  assert.ok(existsSync(path.join(worktreePath, 'notes.txt')));
});
