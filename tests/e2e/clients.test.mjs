/**
 * CLIs of two dialects on one hub: the protocol's words, and those of the preset `hapi`. Each is scripted with its own words,
 * fields and shapes of results, and goes through the whole story of a session.
 */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { connectCli } from './lib/cli.mjs';
import { startHub } from './lib/hub.mjs';
import { Lifetime } from './lib/lifetime.mjs';

const hub = await startHub({ vars: { VOCABULARY: 'preset:hapi' } });
after(() => hub.stop());

const PORCELAIN = '# branch.head main\n1 .M N... 100644 100644 100644 a b notes.txt\n';
const DIFF = 'diff --git a/notes.txt b/notes.txt\n--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-one\n+two\n';

/** What a CLI of each dialect calls things, and how it answers. */
const DIALECTS = {
  protocol: {
    agent: 'alpha',
    agentIdField: 'alphaSessionId',
    models: { fast: 'model_fast', strong: 'model_strong' },
    modelField: 'modelMode',
    methods: {},
    spawned: (sessionId) => ({ success: true, sessionId }),
    exists: (paths) => paths,
    git: {
      gitStatus: { success: true, branch: 'main', files: [{ path: 'notes.txt', status: 'modified' }] },
      gitDiffNumstat: { success: true, files: [{ path: 'notes.txt', added: 1, removed: 1 }] },
      gitDiffFile: { success: true, diff: DIFF },
    },
    commands: ['compact'],
    announcesItself: true,
  },
  hapi: {
    agent: 'claude',
    agentIdField: 'claudeSessionId',
    models: { fast: 'sonnet', strong: 'opus' },
    modelField: 'model',
    methods: {
      spawnSession: 'spawn-happy-session',
      checkPathExists: 'path-exists',
      gitStatus: 'git-status',
      gitDiffNumstat: 'git-diff-numstat',
      gitDiffFile: 'git-diff-file',
      runRipgrep: 'ripgrep',
      deleteUploadFile: 'deleteUpload',
    },
    spawned: (sessionId) => ({ type: 'success', sessionId }),
    exists: (paths) => ({ exists: paths }),
    git: {
      gitStatus: { success: true, stdout: PORCELAIN, stderr: '', exitCode: 0 },
      gitDiffNumstat: { success: true, stdout: '1\t1\tnotes.txt\n', stderr: '', exitCode: 0 },
      gitDiffFile: { success: true, stdout: DIFF, stderr: '', exitCode: 0 },
    },
    commands: [{ name: 'compact', description: 'Compact the conversation', source: 'builtin' }],
    // Its first `machine-alive` comes after 20 s.
    announcesItself: false,
  },
};

for (const [name, dialect] of Object.entries(DIALECTS)) {
  describe(`a CLI with the words of ${name}`, () => {
    const suite = new Lifetime();
    const web = hub.web(name);
    const machineId = `machine-${name}`;
    const directory = '/code/demo';
    const word = (method) => dialect.methods[method] ?? method;
    /** The params of the calls, by the protocol's name of the method. */
    const received = {};
    const states = new Map();
    let runner;
    let sessionId;
    let feed;

    const ok = (response) => {
      assert.equal(response.status, 200, response.text);
      return response.body;
    };
    const act = async (action, body = {}) => ok(await web.post(`/api/sessions/${sessionId}/${action}`, body));
    const read = async (route) => ok(await web.get(`/api/sessions/${sessionId}/${route}`));

    /** Starts the session's process: registers its methods, then reports that it is alive. */
    async function startSession(id) {
      const cli = await connectCli(suite, hub, { namespace: name, auth: { sessionId: id, clientType: 'session-scoped' } });
      const serve = async (method, answer) => {
        await cli.serve(`${id}:${word(method)}`, (params) => {
          received[method] = params;
          return answer(params);
        });
      };
      for (const [method, result] of Object.entries(dialect.git)) await serve(method, () => result);
      await serve('readFile', () => ({ success: true, content: Buffer.from('two\n').toString('base64') }));
      await serve('listDirectory', () => ({ success: true, entries: [{ name: 'notes.txt', type: 'file', size: 4 }] }));
      await serve('runRipgrep', () => ({ success: true, stdout: 'notes.txt\n', stderr: '', exitCode: 0 }));
      await serve('listSlashCommands', () => ({ success: true, commands: dialect.commands }));
      await serve('listSkills', () => ({ success: true, skills: [{ name: 'review', description: 'Reviews changes' }] }));
      await serve('uploadFile', ({ filename }) => ({ success: true, path: `/uploads/${filename}` }));
      await serve('deleteUploadFile', () => ({ success: true }));
      await serve('permission', () => ({}));
      await serve('set-session-config', (config) => {
        const applied = {};
        if (config.permissionMode !== undefined) applied.permissionMode = config.permissionMode;
        if (config[dialect.modelField] !== undefined) applied[dialect.modelField] = config[dialect.modelField];
        return { applied };
      });
      await serve('killSession', () => ({ success: true }));
      await cli.keepAlive(id, { thinking: false, mode: 'remote', [dialect.modelField]: dialect.models.fast });
      states.set(id, cli);
      return id;
    }

    before(async () => {
      await web.registerMachine({ id: machineId, metadata: { host: name, platform: 'linux' } });
      runner = await connectCli(suite, hub, { namespace: name, auth: { machineId, clientType: 'machine-scoped' } });
      if (dialect.announcesItself) await runner.emitWithAck('machine-alive', { machineId, time: Date.now() });
      await runner.serve(`${machineId}:${word('checkPathExists')}`, ({ paths }) => dialect.exists(Object.fromEntries(paths.map((item) => [item, item === directory]))));
      await runner.serve(`${machineId}:${word('spawnSession')}`, async (params) => {
        received.spawnSession = params;
        const metadata = { path: params.directory, host: name, machineId, flavor: params.agent, [dialect.agentIdField]: 'conversation-1' };
        const { id } = params.sessionId === undefined ? await web.openSession({ tag: `tag-${name}`, metadata }) : { id: params.sessionId };
        return dialect.spawned(await startSession(id));
      });
    });
    after(() => suite.end());

    test('is online once its runner has connected', async () => {
      const { machines } = ok(await web.get('/api/machines'));
      assert.deepEqual(machines.map(({ id }) => id), [machineId]);
      const paths = ok(await web.post(`/api/machines/${machineId}/paths/exists`, { paths: [directory, '/none'] }));
      assert.deepEqual(paths, { [directory]: true, '/none': false });
    });

    test('starts a session in its own words, whichever the web client used', async () => {
      const { agents } = ok(await web.get('/api/config'));
      assert.deepEqual(agents.map(({ id }) => id), ['claude', 'codex', 'cursor', 'gemini', 'opencode']);
      const body = { directory, agent: agents[0].id, model: agents[0].models[1].id, yolo: false };
      const spawned = ok(await web.post(`/api/machines/${machineId}/spawn`, body));
      assert.deepEqual([spawned.success, spawned.type], [true, 'success']);
      sessionId = spawned.sessionId;
      assert.deepEqual(received.spawnSession, { directory, agent: dialect.agent, model: dialect.models.fast, yolo: false });
      const session = await web.readSession(sessionId);
      assert.deepEqual([session.active, session.metadata.flavor, session.modelMode], [true, dialect.agent, dialect.models.fast]);
      feed = await web.openSocket({ sessionId });
      suite.after(() => feed.close());
      await feed.waitForGreeting();
    });

    test('exchanges messages, and asks for permission', async () => {
      const cli = states.get(sessionId);
      await act('messages', { text: 'change the notes', localId: 'l-1' });
      assert.equal((await cli.nextUpdate('new-message')).message.content.content.text, 'change the notes');
      const requests = Object.fromEntries(['r-1', 'r-2'].map((id) => [id, { tool: 'Edit', arguments: { file: 'notes.txt' }, createdAt: Date.now() }]));
      const { agentStateVersion } = await web.readSession(sessionId);
      await cli.emitWithAck('update-state', { sid: sessionId, expectedVersion: agentStateVersion, agentState: { controlledByUser: false, requests } });
      await act('permissions/r-1/approve', { decision: 'approved_for_session', mode: 'acceptEdits' });
      assert.deepEqual(received.permission, { sessionId, id: 'r-1', approved: true, mode: 'acceptEdits', decision: 'approved_for_session' });
      await act('permissions/r-2/deny', { decision: 'denied' });
      assert.deepEqual(received.permission, { sessionId, id: 'r-2', approved: false, decision: 'denied' });
      const { completedRequests } = (await web.readSession(sessionId)).agentState;
      assert.deepEqual([completedRequests['r-1'].status, completedRequests['r-2'].status], ['approved', 'denied']);
      await cli.sendMessage(sessionId, { role: 'agent', content: { type: 'output', data: { type: 'assistant', message: { content: [{ type: 'text', text: 'done' }] } } } });
      const { messages } = await read('messages');
      assert.equal(messages.length, 2);
    });

    test('serves files, git, commands and uploads in its own shapes', async () => {
      assert.deepEqual(await read('git-status'), dialect.git.gitStatus);
      assert.deepEqual(await read('git-diff-numstat?staged=true'), dialect.git.gitDiffNumstat);
      assert.deepEqual(await read(`git-diff-file?path=${directory}/notes.txt`), dialect.git.gitDiffFile);
      assert.deepEqual(received.gitDiffFile, { sessionId, cwd: directory, filePath: 'notes.txt', staged: false });
      const { files } = await read('files?query=notes');
      const file = await read(`file?path=${encodeURIComponent(files[0].fullPath)}`);
      assert.equal(Buffer.from(file.content, 'base64').toString(), 'two\n');
      assert.deepEqual(received.readFile, { sessionId, path: 'notes.txt' });
      assert.equal((await read('directory')).entries[0].name, 'notes.txt');
      assert.deepEqual((await read('slash-commands')).commands, dialect.commands);
      assert.deepEqual(received.listSlashCommands, { sessionId, agent: dialect.agent });
      assert.equal((await read('skills')).skills[0].name, 'review');
      const upload = { filename: 'a.txt', content: 'aGk=', mimeType: 'text/plain' };
      assert.equal((await act('upload', upload)).path, '/uploads/a.txt');
      assert.deepEqual(received.uploadFile, { sessionId, ...upload });
      await act('upload/delete', { path: '/uploads/a.txt' });
      assert.deepEqual(received.deleteUploadFile, { sessionId, path: '/uploads/a.txt' });
    });

    test('applies modes and models in its own words', async () => {
      await act('permission-mode', { mode: 'plan' });
      for (const model of ['model_strong', 'opus']) {
        await act('model', { model });
        assert.equal(received['set-session-config'][dialect.modelField], dialect.models.strong, model);
        assert.equal((await web.readSession(sessionId)).modelMode, dialect.models.strong, model);
      }
      const refused = await web.post(`/api/sessions/${sessionId}/permission-mode`, { mode: 'read-only' });
      assert.equal(refused.body.code, 'invalid_field', refused.text);
      // A CLI of the preset reports its default model as `null`.
      await states.get(sessionId).keepAlive(sessionId, dialect.modelField === 'model' ? { model: null } : { modelMode: 'default' });
      const { modelMode, permissionMode } = await web.readSession(sessionId);
      assert.deepEqual([modelMode, permissionMode], ['default', 'plan']);
    });

    test('is archived and resumed', async () => {
      await act('archive');
      assert.equal((await web.readSession(sessionId)).active, false);
      states.get(sessionId).close();
      assert.deepEqual(await act('resume'), { success: true, sessionId });
      assert.deepEqual(received.spawnSession, { directory, agent: dialect.agent, sessionId, resumeSessionId: 'conversation-1' });
      assert.equal((await web.readSession(sessionId)).active, true);
    });
  });
}
