/** The session side: one session at the hub, its connection, its methods and its agent. */

import { ShellAgent } from './agent.mjs';
import { Catalog } from './catalog.mjs';
import { Controls, initialSettings } from './controls.mjs';
import { fileMethods } from './files.mjs';
import { gitMethods } from './git.mjs';
import { HubSocket } from './hub-socket.mjs';
import { Inbox } from './inbox.mjs';
import { describeSession, revived } from './metadata.mjs';
import { isValidMode } from './modes.mjs';
import { Outbox } from './outbox.mjs';
import { Permissions } from './permissions.mjs';
import * as records from './records.mjs';
import { RpcServer } from './rpc.mjs';
import { searchMethods } from './search.mjs';
import { ShellState } from './shell-state.mjs';
import { Todos } from './todos.mjs';
import { uploadMethods } from './uploads.mjs';
import { Versioned } from './versioned.mjs';

/** How often the hub hears that the session is alive; it gives up after 30 s of silence. */
const ALIVE_MS = 10_000;

/** How long the last messages may take when the process ends. */
const FLUSH_MS = 5000;

export class Session {
  #timer = null;
  #gone;

  /** True as soon as it is about to end. */
  ending = false;
  /** Settled when it has ended. */
  gone = new Promise((resolve) => {
    this.#gone = resolve;
  });

  /**
   * Finds the session at the hub, by its id when it is to go on, else by its tag; a new tag makes a new one. Nothing is
   * connected yet: see `connect`.
   * @param {Record<string, any>} options as of `startApp`, with `client`, `outage`, `store`, `root`, `machineId`, `log`
   * @returns {Promise<Session>}
   * @throws {Error} when the session cannot be served, or not be resumed, from here
   */
  static async open(options) {
    const { client, outage, patienceMs } = options;
    const call = (work) => outage.call('session', work, patienceMs);
    const known = options.sessionId === undefined ? null : await call(() => client.getSession(options.sessionId));
    const tag = known?.tag ?? options.tag ?? options.root;
    const state = options.store.openSession(tag);
    try {
      if (known && (state.sessionId !== known.id || state.agentId !== options.resume)) {
        throw new Error(`This machine keeps nothing of session ${known.id} under the agent's id ${options.resume}.`);
      }
      const metadata = await describeSession(options, state.agentId);
      const body = {
        tag,
        metadata,
        agentState: { controlledByUser: options.local ?? false, requests: {}, completedRequests: {} },
        ...(options.model === undefined ? {} : { model: options.model }),
      };
      const session = known ?? (await call(() => client.openSession(body)));
      state.attach(session.id, session.seq ?? 0);
      return new Session(options, { state, metadata, session });
    } catch (error) {
      state.release();
      throw error;
    }
  }

  constructor(options, { state, metadata, session }) {
    const { hub, token, bridged, log, outage, root, flavor, client, store } = options;
    this.id = session.id;
    this.log = log;
    this.client = client;
    this.state = state;
    this.ownMetadata = metadata;
    this.settings = initialSettings(options, session);
    const { permissionMode } = this.settings;
    if (permissionMode !== 'default' && !options.autoApprove)
      log.info(`permission mode: ${permissionMode} (kept with the session)`);
    this.socket = new HubSocket({
      hub,
      token,
      bridged,
      log,
      outage,
      ackMs: options.ackMs,
      reconnectMs: options.reconnectMs,
      auth: { sessionId: this.id, clientType: 'session-scoped' },
    });
    const versioned = (event, field) =>
      new Versioned({
        request: (name, payload) => this.socket.request(name, payload),
        scope: { sid: this.id },
        event,
        field,
        value: session[field],
        version: session[`${field}Version`],
      });
    this.agentState = versioned('update-state', 'agentState');
    this.metadata = versioned('update-metadata', 'metadata');
    this.outbox = new Outbox({
      socket: this.socket,
      sid: this.id,
      log,
      ackMs: options.ackMs,
      onStored: (seq, localId) => {
        this.inbox.own(seq);
        state.stored(localId);
      },
    });
    this.permissions = new Permissions({
      state: this.agentState,
      log,
      onMode: (mode) => isValidMode(flavor, mode) && this.controls.apply({ permissionMode: mode }),
    });
    const catalog = new Catalog(root);
    const uploads = store.uploads(this.id);
    // The hub's secret is none of the commands' business.
    const { CLI_API_TOKEN: _token, ...base } = process.env;
    this.shell = new ShellState({
      root,
      base,
      file: state.shellFile,
      kept: state.shell,
      keep: (kept) => state.keepShell(kept),
    });
    this.agent = new ShellAgent({
      shell: this.shell,
      uploads,
      settings: this.settings,
      say: (record, localId) => this.outbox.push(record, localId),
      permissions: this.permissions,
      todos: new Todos(session.todos),
      catalog,
      onThinking: () => this.#alive(),
      onHandled: (seq, minor) => state.handled(seq, minor),
      onCall: (call, seq) => state.began(call, seq),
      echo: options.echo,
      log,
    });
    this.controls = new Controls({
      flavor,
      settings: this.settings,
      agent: this.agent,
      permissions: this.permissions,
      agentState: this.agentState,
      metadata: this.metadata,
      inBackground: (work) => this.#inBackground(work),
      onChange: () => this.#alive(),
      onAborted: () => this.#inBackground(this.#back()),
      onKill: options.onKill ?? (() => {}),
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
        ...this.controls.methods(),
      },
    });
    this.aliveMs = options.aliveMs ?? ALIVE_MS;
    this.greeting = options.resume === undefined ? null : `Resumed: this shell goes on ${this.shell}.`;
    this.#listen();
  }

  /** Connects, and stays connected until `end`. Settled at the first connection. */
  async connect() {
    this.#timer = setInterval(() => this.#alive(), this.aliveMs);
    await this.agent.close(this.state.calls);
    if (this.greeting) await this.outbox.push(records.text(this.greeting));
    this.socket.connect();
    await this.socket.whenConnected();
    // Sent behind the registrations and the first sign of life: with this answered, the hub knows them.
    await this.socket.ask('ping', {}, 1500);
    this.#inBackground(this.permissions.cancelStale());
    this.#inBackground(this.metadata.mutate((current) => revived(current, this.ownMetadata)));
    this.controls.publish();
  }

  /**
   * Ends the session: what was said still goes out, then the hub is told.
   * @param {{completed: boolean}} options `completed`: note in the metadata that the agent ended by itself
   */
  async end({ completed }) {
    if (this.ending) return this.gone;
    this.ending = true;
    clearInterval(this.#timer);
    this.permissions.close();
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
    this.#gone();
  }

  /** This session, as the machine of this process knows it. @returns {import('./processes.mjs').Served} */
  get served() {
    const session = this;
    return {
      id: this.id,
      answer: Promise.resolve({ success: true, sessionId: this.id }),
      gone: this.gone,
      get ending() {
        return session.ending;
      },
    };
  }

  /** A line typed at the terminal. */
  type(line) {
    if (this.ending) this.log.info('The session has ended: nothing is run any more.');
    else if (line === '/remote') this.controls.switchTo('remote');
    else if (line === '/local') this.controls.switchTo('local');
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

  /**
   * The hub takes an aborted session for inactive until its next sign of life. With a ping answered it has read the answer
   * to `abort`, which was sent before.
   */
  async #back() {
    await this.socket.ask('ping', {});
    this.#alive();
  }

  #alive() {
    if (this.ending) return;
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

  #inBackground(work) {
    work.catch((error) => !this.ending && this.log.warn(error.message));
  }
}
