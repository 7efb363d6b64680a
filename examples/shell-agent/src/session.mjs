/** The session side: one session at the hub, its connection, its methods and its agent. */

import { homedir, hostname, platform } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { ShellAgent } from './agent.mjs';
import { Catalog } from './catalog.mjs';
import { fileMethods } from './files.mjs';
import { gitMethods } from './git.mjs';
import { withPatience } from './hub-client.mjs';
import { HubSocket } from './hub-socket.mjs';
import { Inbox } from './inbox.mjs';
import { freeMode, isValidMode, isValidModel } from './modes.mjs';
import { Outbox } from './outbox.mjs';
import { Permissions } from './permissions.mjs';
import { RpcServer } from './rpc.mjs';
import { searchMethods } from './search.mjs';
import { Todos } from './todos.mjs';
import { uploadMethods } from './uploads.mjs';
import { Versioned } from './versioned.mjs';

export const VERSION = '0.1.0';

/** How often the hub hears that the session is alive; it gives up after 30 s of silence. */
const ALIVE_MS = 10_000;

/** How long the last messages may take when the process ends. */
const FLUSH_MS = 5000;

export class Session {
  #timer = null;
  #ended = false;

  /**
   * Creates or finds the session at the hub. Nothing is connected yet: see `connect`.
   * @param {Record<string, any>} options as of `startApp`, with `client`, `store`, `root`, `machineId` and `log`
   * @returns {Promise<Session>}
   */
  static async open(options) {
    const tag = options.tag ?? options.root;
    const state = options.store.openSession(tag);
    try {
      const metadata = await describe(options, state.agentId);
      const session = await withPatience(
        () =>
          options.client.openSession({
            tag,
            metadata,
            agentState: { controlledByUser: options.local ?? false, requests: {}, completedRequests: {} },
            ...(options.model === undefined ? {} : { model: options.model }),
          }),
        { forMs: options.patienceMs, onRetry: (error) => options.log.warn(`${error.message} Trying again.`) },
      );
      state.attach(session.id, session.seq ?? 0);
      return new Session(options, { state, metadata, session });
    } catch (error) {
      state.release();
      throw error;
    }
  }

  constructor(options, { state, metadata, session }) {
    const { hub, token, bridged, log, root, flavor, client, store } = options;
    this.id = session.id;
    this.log = log;
    this.client = client;
    this.state = state;
    this.ownMetadata = metadata;
    this.flavor = flavor;
    this.onKill = options.onKill ?? (() => {});
    const kept = isValidMode(flavor, session.permissionMode) ? session.permissionMode : 'default';
    this.settings = {
      mode: options.local ? 'local' : 'remote',
      permissionMode: options.autoApprove ? (freeMode(flavor) ?? kept) : kept,
      modelMode: [options.model, session.modelMode].find((model) => isValidModel(flavor, model)),
      // A kind of agent without a mode for it can still be started so.
      autoApprove: Boolean(options.autoApprove) && freeMode(flavor) === null,
    };
    const { permissionMode } = this.settings;
    if (permissionMode !== 'default' && !options.autoApprove)
      log.info(`permission mode: ${permissionMode} (kept with the session)`);
    this.socket = new HubSocket({
      hub,
      token,
      bridged,
      log,
      ackMs: options.ackMs,
      reconnectMs: options.reconnectMs,
      auth: { sessionId: this.id, clientType: 'session-scoped' },
    });
    const request = (event, payload) => this.socket.request(event, payload);
    const scope = { sid: this.id };
    this.agentState = new Versioned({
      request,
      scope,
      event: 'update-state',
      field: 'agentState',
      value: session.agentState,
      version: session.agentStateVersion,
    });
    this.metadata = new Versioned({
      request,
      scope,
      event: 'update-metadata',
      field: 'metadata',
      value: session.metadata,
      version: session.metadataVersion,
    });
    this.outbox = new Outbox({
      socket: this.socket,
      sid: this.id,
      log,
      ackMs: options.ackMs,
      onStored: (seq) => this.inbox.own(seq),
    });
    this.permissions = new Permissions({
      state: this.agentState,
      log,
      onMode: (mode) => isValidMode(flavor, mode) && this.#apply({ permissionMode: mode }),
    });
    const catalog = new Catalog(root);
    const uploads = store.uploads(this.id);
    this.agent = new ShellAgent({
      cwd: root,
      uploads,
      settings: this.settings,
      say: (record) => this.outbox.push(record),
      permissions: this.permissions,
      todos: new Todos(session.todos),
      catalog,
      onThinking: () => this.#alive(),
      onHandled: (seq, minor) => state.handled(seq, minor),
      echo: options.echo,
      log,
    });
    this.inbox = new Inbox({
      fetchAfter: (seq) => client.messagesAfter(this.id, seq),
      onMessage: (message) => this.agent.receive(message),
      startSeq: state.lastSeq,
      isConnected: () => this.socket.connected,
      onError: (error) => this.#refused(error),
    });
    this.rpc = new RpcServer({
      socket: this.socket,
      scopeId: this.id,
      log,
      methods: {
        ...gitMethods(root),
        ...fileMethods(root),
        ...searchMethods(root),
        ...uploadMethods(uploads),
        listSlashCommands: async () => ({ success: true, commands: await catalog.commands() }),
        listSkills: async () => ({ success: true, skills: await catalog.skills() }),
        ...this.#controls(),
      },
    });
    this.aliveMs = options.aliveMs ?? ALIVE_MS;
    this.#listen();
  }

  /** Connects, and stays connected until `end`. Settled at the first connection. */
  async connect() {
    this.#timer = setInterval(() => this.#alive(), this.aliveMs);
    this.socket.connect();
    await this.socket.whenConnected();
    // Sent behind the registrations and the first sign of life: with this answered, the hub knows them.
    await this.socket.ask('ping', {}, 1500);
    this.#inBackground(this.permissions.cancelStale());
    this.#inBackground(this.metadata.mutate((current) => this.#revive(current)));
    this.#setControl(this.settings.mode === 'local');
  }

  /**
   * Ends the session: what was said still goes out, then the hub is told.
   * @param {{completed: boolean}} options `completed`: note in the metadata that the agent ended by itself
   */
  async end({ completed }) {
    if (this.#ended) return;
    this.#ended = true;
    clearInterval(this.#timer);
    const patience = new Promise((resolve) => setTimeout(resolve, FLUSH_MS).unref());
    await Promise.race([this.agent.stop(), patience]);
    if (!(await this.outbox.flush(this.socket.connected ? FLUSH_MS : 0))) {
      this.log.warn(`${this.outbox.size} message(s) could not be delivered to the hub.`);
    }
    if (this.socket.connected) {
      if (completed) {
        const lifecycle = { lifecycleState: 'completed', lifecycleStateSince: Date.now() };
        const noted = this.metadata.mutate((current) => ({ ...current, ...lifecycle })).catch(() => {});
        await Promise.race([noted, patience]);
      }
      this.rpc.unregister();
      this.socket.send('session-end', { sid: this.id, time: Date.now() });
      // The hub reads in order: with this answered, it has read what came before.
      await this.socket.ask('ping', {}, 1500);
    }
    this.outbox.close();
    this.socket.close();
    this.state.release();
  }

  /** A line typed at the terminal. */
  type(line) {
    if (line === '/remote') this.#switchTo('remote');
    else if (line === '/local') this.#switchTo('local');
    else this.agent.type(line);
  }

  #listen() {
    this.socket.on('connect', () => {
      this.rpc.register();
      this.#alive();
      this.outbox.connected();
      this.inbox.catchUp();
      this.#refresh();
    });
    this.socket.on('disconnect', () => this.outbox.disconnected());
    this.socket.on('update', (body) => {
      if (body.sid !== this.id) return;
      if (body.t === 'new-message') this.inbox.live(body.message);
      if (body.t === 'update-session') {
        if (body.metadata) this.metadata.adopt(body.metadata.version, body.metadata.value);
        if (body.agentState) this.agentState.adopt(body.agentState.version, body.agentState.value);
      }
    });
  }

  /** What changed while there was no connection. */
  async #refresh() {
    try {
      const session = await this.client.getSession(this.id);
      this.metadata.adopt(session.metadataVersion, session.metadata);
      this.agentState.adopt(session.agentStateVersion, session.agentState);
    } catch (error) {
      this.#refused(error);
    }
  }

  #refused(error) {
    if (error.status === 404 || error.status === 403) this.socket.fail(`The session is gone: ${error.message}`);
    else this.log.debug(error.message);
  }

  #alive() {
    const { mode, permissionMode, modelMode } = this.settings;
    this.socket.send('session-alive', {
      sid: this.id,
      time: Date.now(),
      thinking: this.agent.thinking,
      mode,
      permissionMode,
      ...(modelMode === undefined ? {} : { modelMode }),
    });
  }

  /** The session's metadata for this run: the hub may hold that of an earlier one. */
  #revive(current) {
    const { archivedBy: _by, archiveReason: _why, ...kept } = current ?? {};
    const next = { ...kept, ...this.ownMetadata };
    if (kept.lifecycleState === 'running') next.lifecycleStateSince = kept.lifecycleStateSince;
    return isDeepStrictEqual(next, current) ? current : next;
  }

  #apply(changes) {
    Object.assign(this.settings, changes);
    this.#alive();
    this.agent.wake();
  }

  #switchTo(mode) {
    if (this.settings.mode === mode) return;
    this.#apply({ mode });
    this.#setControl(mode === 'local');
    this.log.info(mode === 'local' ? 'The terminal is in control.' : 'The web is in control.');
  }

  #setControl(controlledByUser) {
    this.#inBackground(
      this.agentState.mutate((current) =>
        Boolean(current?.controlledByUser) === controlledByUser ? current : { ...current, controlledByUser },
      ),
    );
  }

  #inBackground(work) {
    work.catch((error) => !this.#ended && this.log.warn(error.message));
  }

  /** Methods that steer the agent. */
  #controls() {
    return {
      permission: async (params) => {
        const answer = await this.permissions.answer(params);
        if (answer.success && params.decision === 'abort') this.#inBackground(this.agent.abort());
        return answer;
      },
      abort: async () => ({ success: true, ...(await this.agent.abort()) }),
      switch: async ({ to = 'remote' }) => {
        if (to !== 'remote' && to !== 'local') return { success: false, error: '"to" must be "remote" or "local".' };
        this.#switchTo(to);
        return { success: true, mode: to };
      },
      killSession: async () => {
        setImmediate(this.onKill);
        return { success: true };
      },
      'set-session-config': async ({ permissionMode, modelMode }) => {
        if (permissionMode !== undefined && !isValidMode(this.flavor, permissionMode)) {
          return { success: false, error: `An agent of kind ${this.flavor} has no permission mode ${permissionMode}.` };
        }
        if (modelMode !== undefined && !isValidModel(this.flavor, modelMode)) {
          return { success: false, error: `An agent of kind ${this.flavor} has no model mode ${modelMode}.` };
        }
        const applied = {
          ...(permissionMode === undefined ? {} : { permissionMode }),
          ...(modelMode === undefined ? {} : { modelMode }),
        };
        this.#apply(applied);
        return { success: true, applied };
      },
    };
  }
}

/** Metadata of the session as this process knows it. */
async function describe({ root, flavor, name, machineId, startedByRunner = false }, agentId) {
  return {
    path: root,
    host: hostname(),
    version: VERSION,
    os: platform(),
    homeDir: homedir(),
    machineId,
    flavor,
    [`${flavor}SessionId`]: agentId,
    hostPid: process.pid,
    startedBy: startedByRunner ? 'runner' : 'terminal',
    startedFromRunner: startedByRunner,
    lifecycleState: 'running',
    lifecycleStateSince: Date.now(),
    tools: ['Bash', 'TodoWrite'],
    slashCommands: await new Catalog(root).commands(),
    ...(name === undefined ? {} : { name }),
  };
}
