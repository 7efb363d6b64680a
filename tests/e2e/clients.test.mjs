/**
 * CLIs of two dialects on one hub: the protocol, and the preset `hapi`. Each scripted CLI uses the words, fields and shapes of results of
 * its dialect, and goes through the whole life of a session.
 */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { DIALECTS, ScriptedCli } from './lib/dialects.mjs';
import { startHub } from './lib/hub.mjs';
import { Lifetime } from './lib/lifetime.mjs';

const hub = await startHub({ vars: { VOCABULARY: 'preset:hapi' } });
after(() => hub.stop());

for (const [name, dialect] of /** @type {[keyof typeof DIALECTS, any][]} */ (Object.entries(DIALECTS))) {
  describe(`a CLI with the words of ${name}`, () => {
    const suite = new Lifetime();
    const web = hub.web(name);
    const machine = new ScriptedCli(suite, hub, name);
    const { directory, machineId, received } = machine;
    let sessionId;
    let feed;

    const ok = (response) => {
      assert.equal(response.status, 200, response.text);
      return response.body;
    };
    const postAction = async (action, body = {}) => ok(await web.post(`/api/sessions/${sessionId}/${action}`, body));
    const readRoute = async (route) => ok(await web.get(`/api/sessions/${sessionId}/${route}`));

    before(() => machine.startRunner());
    after(() => suite.end());

    test('is online once its runner has connected', async () => {
      const { machines } = ok(await web.get('/api/machines'));
      assert.deepEqual(
        machines.map(({ id }) => id),
        [machineId],
      );
      const paths = ok(await web.post(`/api/machines/${machineId}/paths/exists`, { paths: [directory, '/none'] }));
      assert.deepEqual(paths, { [directory]: true, '/none': false });
    });

    test('starts a session in its own words, even if the web client used other words', async () => {
      const { agents } = ok(await web.get('/api/config'));
      assert.deepEqual(
        agents.map(({ id }) => id),
        DIALECTS.hapi.agents,
      );
      for (const [index, { id, kind }] of agents.entries()) {
        for (const agent of [id, kind]) {
          ok(await web.post(`/api/machines/${machineId}/spawn`, { directory, agent }));
          assert.deepEqual(received.spawnSession, { directory, agent: dialect.agents[index] });
        }
      }
      const body = { directory, agent: agents[0].id, model: agents[0].models[1].id, yolo: false };
      const spawned = ok(await web.post(`/api/machines/${machineId}/spawn`, body));
      assert.deepEqual([spawned.success, spawned.type], [true, 'success']);
      sessionId = spawned.sessionId;
      assert.deepEqual(received.spawnSession, { directory, agent: dialect.agents[0], model: dialect.models.fast, yolo: false });
      const session = await web.readSession(sessionId);
      assert.deepEqual([session.active, session.metadata.flavor, session.modelMode], [true, dialect.agents[0], dialect.models.fast]);
      feed = await web.openSocket({ sessionId });
      suite.after(() => feed.close());
      await feed.waitForGreeting();
    });

    test('exchanges messages, and asks for permission', async () => {
      const cli = machine.sessions.get(sessionId);
      await postAction('messages', { text: 'change the notes', localId: 'l-1' });
      assert.equal((await cli.nextUpdate('new-message')).message.content.content.text, 'change the notes');
      await machine.ask(sessionId, 'r-1', 'r-2');
      await postAction('permissions/r-1/approve', { decision: 'approved_for_session', mode: 'acceptEdits' });
      assert.deepEqual(received.permission, {
        sessionId,
        id: 'r-1',
        approved: true,
        mode: 'acceptEdits',
        decision: 'approved_for_session',
      });
      await postAction('permissions/r-2/deny', { decision: 'denied' });
      assert.deepEqual(received.permission, { sessionId, id: 'r-2', approved: false, decision: 'denied' });
      const { completedRequests } = (await web.readSession(sessionId)).agentState;
      assert.deepEqual([completedRequests['r-1'].status, completedRequests['r-2'].status], ['approved', 'denied']);
      await machine.say(sessionId, 'done');
      const { messages } = await readRoute('messages');
      assert.equal(messages.length, 2);
    });

    test('serves files, git, commands and uploads in its own shapes', async () => {
      assert.deepEqual(await readRoute('git-status'), dialect.git.gitStatus);
      assert.deepEqual(await readRoute('git-diff-numstat?staged=true'), dialect.git.gitDiffNumstat);
      assert.deepEqual(await readRoute(`git-diff-file?path=notes.txt`), dialect.git.gitDiffFile);
      assert.deepEqual(received.gitDiffFile, { sessionId, cwd: directory, filePath: 'notes.txt', staged: false });
      const { files } = await readRoute('files?query=notes');
      const file = await readRoute(`file?path=${encodeURIComponent(files[0].filePath)}`);
      assert.equal(Buffer.from(file.content, 'base64').toString(), 'two\n');
      assert.deepEqual(received.readFile, { sessionId, path: 'notes.txt' });
      assert.equal((await readRoute('directory')).entries[0].name, 'notes.txt');
      assert.deepEqual((await readRoute('slash-commands')).commands, dialect.commands);
      assert.deepEqual(received.listSlashCommands, { sessionId, agent: dialect.agents[0] });
      assert.equal((await readRoute('skills')).skills[0].name, 'review');
      const upload = { filename: 'a.txt', content: 'aGk=', mimeType: 'text/plain' };
      assert.equal((await postAction('upload', upload)).path, '/uploads/a.txt');
      assert.deepEqual(received.uploadFile, { sessionId, ...upload });
      await postAction('upload/delete', { path: '/uploads/a.txt' });
      assert.deepEqual(received.deleteUploadFile, { sessionId, path: '/uploads/a.txt' });
    });

    test('applies modes and models in its own words', async () => {
      await postAction('permission-mode', { mode: 'plan' });
      for (const model of ['model_strong', 'opus']) {
        await postAction('model', { model });
        assert.equal(received['set-session-config'][dialect.modelField], dialect.models.strong, model);
        assert.equal((await web.readSession(sessionId)).modelMode, dialect.models.strong, model);
      }
      const refused = await web.post(`/api/sessions/${sessionId}/permission-mode`, { mode: 'read-only' });
      assert.equal(refused.body.code, 'invalid_field', refused.text);
      // A CLI of the preset reports its default model as `null`.
      await machine.sessions
        .get(sessionId)
        .keepAlive(sessionId, dialect.modelField === 'model' ? { model: null } : { modelMode: 'default' });
      const { modelMode, permissionMode } = await web.readSession(sessionId);
      assert.deepEqual([modelMode, permissionMode], ['default', 'plan']);
    });

    test('is archived and resumed', async () => {
      await postAction('archive');
      assert.equal((await web.readSession(sessionId)).active, false);
      machine.sessions.get(sessionId).close();
      assert.deepEqual(await postAction('resume'), { success: true, sessionId });
      assert.deepEqual(received.spawnSession, { directory, agent: dialect.agents[0], sessionId, resumeSessionId: 'conversation-1' });
      assert.equal((await web.readSession(sessionId)).active, true);
    });
  });
}
