/** Scripted CLIs of two dialects: the protocol, and the preset `hapi`. Each dialect has its own names, fields and formats of results. */

import { connectCli } from '../../../scripts/product/clients/cli.mjs';

const PORCELAIN = '# branch.head main\n1 .M N... 100644 100644 100644 a b notes.txt\n';
const DIFF = 'diff --git a/notes.txt b/notes.txt\n--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-one\n+two\n';

/** The names that a CLI of each dialect uses, and its answers. */
export const DIALECTS = {
  protocol: {
    agents: ['alpha', 'beta', 'gamma', 'delta', 'epsilon'],
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
    agents: ['claude', 'codex', 'cursor', 'gemini', 'opencode'],
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
    // This dialect sends its first `machine-alive` after 20 s.
    announcesItself: false,
  },
};

/** The content of the file `notes.txt` in the sessions' directory. */
const NOTES = 'two\n';

/** A machine with a runner that starts sessions, each with its own process. */
export class ScriptedCli {
  directory = '/code/demo';
  /** The params of the last call to each method, by the protocol's name. */
  received = {};
  /** The processes of the sessions, by session id. */
  sessions = new Map();
  /** Whether the machine resumes a session under a new id. */
  resumesUnderNewId = false;
  #t;
  #hub;
  #name;
  #namespace;

  /**
   * @param {{after: (step: () => unknown) => void}} t
   * @param {import('./hub.mjs').Hub} hub with the preset `hapi`
   * @param {keyof typeof DIALECTS} name
   * @param {string} [namespace]
   */
  constructor(t, hub, name, namespace = name) {
    this.#t = t;
    this.#hub = hub;
    this.#name = name;
    this.#namespace = namespace;
    this.dialect = DIALECTS[name];
    this.machineId = `machine-${name}`;
  }

  get #web() {
    return this.#hub.web(this.#namespace);
  }

  /** Serves a method of a session or machine under the dialect's name. */
  #serve(cli, owner, method, answer) {
    return cli.serve(`${owner}:${this.dialect.methods[method] ?? method}`, (params) => {
      this.received[method] = params;
      return answer(params);
    });
  }

  /** Registers the machine, and connects a runner that starts sessions. */
  async startRunner() {
    const { directory, dialect, machineId } = this;
    await this.#web.registerMachine({ id: machineId, metadata: { host: this.#name, platform: 'linux' } });
    const runner = await connectCli(this.#t, this.#hub, { namespace: this.#namespace, auth: { machineId, clientType: 'machine-scoped' } });
    if (dialect.announcesItself) await runner.emitWithAck('machine-alive', { machineId, time: Date.now() });
    const exists = (paths) => dialect.exists(Object.fromEntries(paths.map((item) => [item, item === directory])));
    await this.#serve(runner, machineId, 'checkPathExists', ({ paths }) => exists(paths));
    await this.#serve(runner, machineId, 'spawnSession', async ({ directory: path, agent, sessionId }) => {
      const metadata = { path, host: this.#name, machineId, flavor: agent, [dialect.agentIdField]: 'conversation-1' };
      const tag = `tag-${this.#name}-${agent}${sessionId ? '-resumed' : ''}`;
      const id = sessionId && !this.resumesUnderNewId ? sessionId : (await this.#web.openSession({ tag, metadata })).id;
      await this.#startSession(id);
      return dialect.spawned(id);
    });
  }

  /** Starts the session's process: registers its methods, then reports that it is alive. */
  async #startSession(id) {
    const { dialect } = this;
    const cli = await connectCli(this.#t, this.#hub, { namespace: this.#namespace, auth: { sessionId: id, clientType: 'session-scoped' } });
    const serve = (method, answer) => this.#serve(cli, id, method, answer);
    for (const [method, result] of Object.entries(dialect.git)) await serve(method, () => result);
    await serve('readFile', () => ({ success: true, content: Buffer.from(NOTES).toString('base64') }));
    await serve('listDirectory', () => ({ success: true, entries: [{ name: 'notes.txt', type: 'file', size: NOTES.length }] }));
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
    this.sessions.set(id, cli);
  }

  /** Adds a permission request for each id, to edit a file. */
  async ask(sessionId, ...ids) {
    const input = { file_path: 'notes.txt', old_string: 'one', new_string: 'two' };
    const requests = Object.fromEntries(ids.map((id) => [id, { tool: 'Edit', arguments: input, createdAt: Date.now() }]));
    const { agentStateVersion, agentState } = await this.#web.readSession(sessionId);
    const update = { sid: sessionId, expectedVersion: agentStateVersion, agentState: { ...agentState, controlledByUser: false, requests } };
    return this.sessions.get(sessionId).emitWithAck('update-state', update);
  }

  /** Sends a text of the agent. */
  say(sessionId, text) {
    const data = { type: 'assistant', message: { content: [{ type: 'text', text }] } };
    return this.sessions.get(sessionId).sendMessage(sessionId, { role: 'agent', content: { type: 'output', data } });
  }

  /** Sends a record about the agent's own work, such as an error of its API. */
  sendSystemRecord(sessionId, subtype, fields = {}) {
    const data = { type: 'system', subtype, ...fields };
    return this.sessions.get(sessionId).sendMessage(sessionId, { role: 'agent', content: { type: 'output', data } });
  }

  /** Sends an event with a text. */
  sendEvent(sessionId, type, message) {
    return this.sessions.get(sessionId).sendMessage(sessionId, { role: 'agent', content: { type: 'event', data: { type, message } } });
  }

  /** Reports that the agent waits for a message. */
  ready(sessionId) {
    return this.sessions.get(sessionId).sendMessage(sessionId, { role: 'agent', content: { type: 'event', data: { type: 'ready' } } });
  }
}
