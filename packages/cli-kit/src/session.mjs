/** One session: its connection to the hub, its RPC methods and its agent. */

import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { Activity } from './activity.mjs';
import { Backoff } from './backoff.mjs';
import { Controls } from './controls.mjs';
import { fileMethods } from './files.mjs';
import { gitMethods } from './git-methods.mjs';
import { HubError } from './hub-client.mjs';
import { HubSocket } from './hub-socket.mjs';
import { Inbox } from './inbox.mjs';
import { Lifecycle } from './lifecycle.mjs';
import { LiveText } from './live-text.mjs';
import { describeSession, mergeMetadata } from './metadata.mjs';
import { Outbox } from './outbox.mjs';
import { Permissions } from './permissions.mjs';
import { queueMethods } from './queue-methods.mjs';
import { RpcServer } from './rpc.mjs';
import { searchMethods } from './search.mjs';
import { findTag, isServedHere } from './session-tag.mjs';
import { createUploads } from './uploads.mjs';
import { VersionedValue } from './versioned-value.mjs';

/** Interval of the keep-alive. The hub marks a session inactive after 30 s without a keep-alive. */
const KEEP_ALIVE_INTERVAL_MS = 10_000;

/** The pauses after failed reads of the session. */
const REFRESH_PAUSES = { minMs: 1000, maxMs: 15_000 };

/** At the end of a session: time limit for the end of the agent, and for sending the last messages. */
const END_TIMEOUT_MS = 5000;

/**
 * `mode`: who is in control, `local` (the terminal) or `remote` (the web).
 * @typedef {{mode: 'local' | 'remote', permissionMode: string, modelMode?: string, autoApprove?: boolean}} Settings
 */

/**
 * What an agent needs from its session.
 * @typedef {object} AgentDependencies
 * @property {string} root the session's directory, resolved
 * @property {import('./app.mjs').ServingOptions} options of `startApp`
 * @property {Record<string, string>} environment for the agent's processes, without the access token
 * @property {Record<string, any>} session the hub's session
 * @property {import('./state.mjs').SessionState} state stored over restarts
 * @property {string} uploads the folder of the session's uploads
 * @property {Settings} settings the current settings, which `configure` and `apply` change
 * @property {(mode: 'local' | 'remote') => void} switchTo hands control to the terminal or to the web
 * @property {(changes: Partial<Settings>) => void} apply records settings that the agent itself has changed
 * @property {(message: object, localId?: string) => Promise<unknown>} send a message; waits while the outbox is full
 * @property {(timeoutMs: number) => Promise<boolean>} flush waits until every message is stored; false on timeout
 * @property {(delta: {id: string, text: string, kind?: string}) => void} sendDelta continues the message that is being written,
 *   so that web clients see it early. `id`: the `localId` of the message once it is sent
 * @property {import('./permissions.mjs').Permissions} permissions
 * @property {(fields: Record<string, unknown>) => void} publishMetadata changes fields of the session's metadata
 * @property {(error: string | null) => void} onStarted to be called with null when the agent has started, and with the reason when the
 *   agent could not be started
 * @property {() => string[]} requestIds ids of the session's earlier and pending permission requests
 * @property {(thinking: boolean) => void} onThinking to be called when `thinking` has changed
 * @property {(activity: string | null) => void} onActivity to be called when what the agent does has changed, such as the tool call that runs
 *   (`describeCall`); null when nothing is known
 * @property {(report: import('./task-queue.mjs').QueueReport) => void} onQueueChange to be called when the queue of messages has changed
 */

/**
 * An agent.
 * @typedef {object} Agent
 * @property {boolean} thinking
 * @property {import('./task-queue.mjs').TaskQueue} queue
 * @property {(mode: {isResumed: boolean}) => Promise<void>} start called before the session connects
 * @property {(message: {id: string, seq: number, content: any}) => void} receive takes each message of the session in order
 * @property {() => void} wake called after a setting changed
 * @property {() => Promise<object>} abort ends the current task; resolves when the task has ended
 * @property {() => Promise<void>} stop ends the agent's processes
 * @property {(changes: {permissionMode?: string, modelMode?: string}) => object | Promise<object>} configure returns the
 *   settings to apply, or throws the reason for refusing them
 * @property {() => Record<string, (params: any) => unknown>} methods its RPC methods
 * @property {() => string | null} [refuseRemote] why the web cannot take control now; null if it can
 * @property {(text: string) => void} [typeLine] takes a line typed at the terminal, if the agent can be controlled there
 */

export class Session {
  #timer = null;
  #activity = new Activity(() => this.#sendAlive());
  /** @type {() => void} */
  #resolveEnded;
  #hasPublished = false;
  /** Identifies the latest read of the session: an earlier read ends. */
  #lastRefresh = {};
  /** The messages that wait for the agent. @type {import('./task-queue.mjs').QueueReport} */
  #queued = { seqs: [], texts: {}, steers: false };

  isEnding = false;
  /** @type {Promise<void>} */
  ended = new Promise((resolve) => {
    this.#resolveEnded = resolve;
  });

  /**
   * Finds the session at the hub: by id to resume a session, otherwise by tag. Creates the session if there is none. Does not connect.
   * @param {import('./app.mjs').ServingOptions & {onKill?: () => void}} options
   * @returns {Promise<Session>}
   * @throws {Error} when another process serves the session, or the state of the session is not on this machine
   */
  static async open(options) {
    const { client, outage, startTimeoutMs } = options;
    const callHub = (request) => outage.callWithRetry('session', request, startTimeoutMs);
    const existing = options.sessionId === undefined ? null : await callHub(() => client.getSession(options.sessionId));
    const { tag, sessionId } = existing ? { tag: existing.tag, sessionId: existing.id } : await findTag(options, callHub);
    const state = options.store.openSession(tag, sessionId);
    try {
      if (existing && (state.sessionId !== existing.id || state.agentId !== options.resume)) {
        throw new Error(`This machine has no state of session ${existing.id} with the agent's id ${options.resume}.`);
      }
      if (existing && !isServedHere(existing, { agentId: state.agentId, installationId: options.store.installationId })) {
        throw new Error(`Another computer has continued session ${existing.id}. Resume the session there.`);
      }
      const metadata = await describeSession(options, state.agentId);
      const body = {
        tag,
        metadata,
        agentState: { controlledByUser: options.local ?? false, requests: {}, completedRequests: {} },
        ...(options.model === undefined ? {} : { model: options.model }),
      };
      const session = existing ?? (await callHub(() => client.openSession(body)));
      const isNew = existing === null && state.sessionId !== session.id && !session.seq;
      state.attach(session.id, session.seq ?? 0);
      return new Session(options, { state, metadata, session, isNew });
    } catch (error) {
      state.release();
      throw error;
    }
  }

  /**
   * @param {import('./app.mjs').ServingOptions & {onKill?: () => void}} options
   * @param {{state: import('./state.mjs').SessionState, metadata: Record<string, any>, session: Record<string, any>,
   *   isNew: boolean}} opened `session`: the session as the hub returned it
   */
  constructor(options, { state, metadata, session, isNew }) {
    const { log, root, client, store, program } = options;
    this.id = session.id;
    this.isNew = isNew;
    this.isSpawned = options.startedByRunner === true;
    this.log = log;
    this.client = client;
    this.state = state;
    this.ownMetadata = metadata;
    /** @type {Settings} */
    this.settings = { mode: options.local ? 'local' : 'remote', ...program.settings(options, session) };
    const { permissionMode } = this.settings;
    if (permissionMode !== 'default' && !options.autoApprove) log.info(`permission mode: ${permissionMode} (stored with the session)`);
    this.lifecycle = new Lifecycle({
      hasMessages: session.seq > 0,
      settings: this.settings,
      // While the session ends, `end` publishes the state.
      publish: (fields) => !this.isEnding && this.#publishMetadata(fields),
    });
    Object.assign(this.ownMetadata, this.lifecycle.fields);
    this.socket = new HubSocket({
      ...options,
      auth: { sessionId: this.id, installationId: options.store.installationId, clientType: 'session-scoped', features: ['upload-chunks'] },
    });
    const origin = { socket: this.socket, scope: { sid: this.id }, record: session };
    this.agentState = new VersionedValue({ ...origin, event: 'update-state', field: 'agentState' });
    this.metadata = new VersionedValue({ ...origin, event: 'update-metadata', field: 'metadata' });
    this.outbox = new Outbox({
      socket: this.socket,
      sid: this.id,
      log,
      onStored: (seq, localId) => {
        this.inbox.skipOwn(seq);
        this.liveText.onStored(localId);
        state.handleStored(localId);
      },
    });
    this.liveText = new LiveText((delta) => this.socket.send('message-delta', { sid: this.id, ...delta }));
    this.permissions = new Permissions({
      state: this.agentState,
      root,
      protectedNames: program.protectedNames,
      log,
      onMode: (mode) => this.#inBackground(this.controls.configure({ permissionMode: mode })),
    });
    const uploads = store.uploadFolder(this.id);
    this.uploads = createUploads(uploads);
    this.#inBackground(this.uploads.discardPartialFiles());
    this.agent = program.createAgent({
      root,
      options,
      environment: { ...process.env },
      session,
      state,
      uploads,
      settings: this.settings,
      apply: (changes) => this.controls.apply(changes),
      switchTo: (mode) => this.controls.switchTo(mode),
      send: (message, localId) => {
        this.lifecycle.onMessage();
        return this.outbox.push(message, localId);
      },
      flush: (timeoutMs) => this.outbox.flush(timeoutMs),
      sendDelta: (delta) => this.liveText.append(delta),
      permissions: this.permissions,
      publishMetadata: (fields) => this.#publishMetadata(fields),
      onStarted: (error) => this.lifecycle.setAgentError(error),
      requestIds: () => this.permissions.requestIds,
      onThinking: () => this.#sendAlive(),
      onActivity: (activity) => this.#activity.set(activity),
      onQueueChange: (queued) => {
        this.#queued = queued;
        if (this.#hasPublished) this.#publishQueue();
      },
    });
    this.controls = new Controls({
      settings: this.settings,
      agent: this.agent,
      permissions: this.permissions,
      agentState: this.agentState,
      lifecycle: this.lifecycle,
      inBackground: (work) => this.#inBackground(work),
      onChange: () => this.#sendAlive(),
      onAbortAnswered: () => this.#inBackground(this.#reactivate()),
      onKill: options.onKill ?? (() => {}),
      log,
    });
    this.inbox = new Inbox({
      fetchAfter: async (seq) => {
        // After the ping, the hub has accepted that this socket serves the session. Otherwise another computer handles the messages.
        if (!(await this.socket.ping())) throw new Error('The hub did not answer a ping.');
        return client.readMessagesAfter(this.id, seq);
      },
      onMessage: (message) => {
        this.lifecycle.onMessage();
        this.agent.receive(message);
      },
      startSeq: state.lastSeq,
      isConnected: () => this.socket.isConnected,
      onError: (error) => this.#handleHubError(error),
    });
    this.rpc = new RpcServer({
      socket: this.socket,
      scopeId: this.id,
      log,
      methods: {
        ...gitMethods(root),
        ...fileMethods(root, uploads),
        ...searchMethods(root),
        ...this.uploads.methods,
        ...this.agent.methods(),
        ...queueMethods(this.agent.queue),
        ...this.controls.methods(),
      },
    });
    this.keepAliveIntervalMs = options.keepAliveIntervalMs ?? KEEP_ALIVE_INTERVAL_MS;
    this.isResumed = options.resume !== undefined;
    this.#addListeners();
  }

  /** Connects, and reconnects until `end` is called. Resolves when the first connection is open. */
  async connect() {
    this.#timer = setInterval(() => this.#sendAlive(), this.keepAliveIntervalMs);
    for (const [localId, note] of Object.entries(this.state.queue.notes)) await this.outbox.push(note, localId);
    await this.agent.start({ isResumed: this.isResumed });
    this.socket.connect();
    await this.socket.whenConnected();
    // The hub processes events in order. After the ping, the hub has processed the registrations and the first keep-alive.
    await this.socket.ping(1500);
    this.#inBackground(this.permissions.cancelStale());
    this.#hasPublished = true;
    this.#inBackground(this.metadata.mutate((current) => mergeMetadata(current, this.ownMetadata)));
    this.#publishQueue();
    this.controls.publishControl();
  }

  /**
   * Deletes the session at the hub if this process created the session and the agent did not start. Otherwise clients would list an
   * empty session.
   */
  async discardUnstarted() {
    if (this.isNew && !this.#hasPublished) await this.#delete();
  }

  /**
   * Whether the session can be deleted at its end: a runner started the session, and it has no messages. A session that was started at
   * the terminal is kept, because the next start in the same directory continues it.
   */
  get #isUnusedAndSpawned() {
    return this.isNew && this.isSpawned && !this.lifecycle.hasMessages && !this.metadata.value?.name;
  }

  #delete() {
    return this.client.deleteSession(this.id).catch((error) => this.log.debug(`cannot delete the session: ${error.message}`));
  }

  /**
   * Ends the session at the hub after its last messages were sent. Deletes an unused session that a runner started.
   * @param {{completed: boolean}} options `completed`: whether to set `lifecycleState` to `completed`
   */
  async end({ completed }) {
    if (this.isEnding) return this.ended;
    this.isEnding = true;
    clearInterval(this.#timer);
    this.#activity.stop();
    this.permissions.close();
    const timeout = new Promise((resolve) => setTimeout(resolve, END_TIMEOUT_MS).unref());
    await Promise.race([this.agent.stop(), timeout]);
    if (!(await this.outbox.flush(this.socket.isConnected ? END_TIMEOUT_MS : 0))) {
      this.log.warn(`${this.outbox.size} message(s) could not be delivered to the hub.`);
    }
    if (this.socket.isConnected) {
      if (completed) {
        const lifecycle = { lifecycleState: 'completed', lifecycleStateSince: Date.now() };
        const stored = this.metadata.mutate((current) => ({ ...current, ...lifecycle })).catch(() => {});
        await Promise.race([stored, timeout]);
      }
      this.rpc.unregister();
      this.socket.send('session-end', { sid: this.id, time: Date.now() });
      // The hub processes events in order. After the ping, the hub has processed `session-end`.
      await this.socket.ping(1500);
    }
    this.outbox.close();
    this.socket.close();
    this.state.release();
    if (completed && this.#isUnusedAndSpawned) await this.#delete();
    this.#resolveEnded();
  }

  /** The session as the machine's spawner needs it. @returns {import('./processes.mjs').ServedSession} */
  get servedSession() {
    const session = this;
    return {
      id: this.id,
      started: Promise.resolve({ success: true, sessionId: this.id }),
      ended: this.ended,
      get isEnding() {
        return session.isEnding;
      },
    };
  }

  /** Handles a line typed at the terminal. */
  typeLine(line) {
    if (this.isEnding) this.log.info('The session has ended: no more commands are run.');
    else if (line === '/remote') this.controls.switchTo('remote');
    else if (line === '/local') this.controls.switchTo('local');
    else this.agent.typeLine(line);
  }

  #addListeners() {
    this.socket.on('connect', () => {
      this.rpc.register();
      this.#sendAlive();
      this.outbox.onConnected();
      this.liveText.onConnected();
      this.inbox.catchUp();
      this.#refresh();
    });
    this.socket.on('disconnect', () => {
      this.outbox.onDisconnected();
      this.#inBackground(this.uploads.discardPartialFiles());
    });
    this.socket.on('update', (body) => {
      if (body.sid !== this.id) return;
      if (body.t === 'new-message') this.inbox.receive(body.message);
      if (body.t === 'update-session') {
        if (body.metadata) this.metadata.adopt(body.metadata.version, body.metadata.value);
        if (body.agentState) this.agentState.adopt(body.agentState.version, body.agentState.value);
      }
    });
  }

  /** Changes fields of the metadata. Before the first connection, only records the fields, which `connect` publishes. */
  #publishMetadata(fields) {
    Object.assign(this.ownMetadata, fields);
    if (this.#hasPublished) this.#inBackground(this.metadata.mutate((current) => mergeMetadata(current, fields)));
  }

  /** Publishes which messages wait for the agent. */
  #publishQueue() {
    this.#inBackground(
      this.agentState.mutate((current) => {
        const { seqs: queuedMessages, ...queue } = this.#queued;
        const { queuedMessages: known = [], queue: knownQueue } = current ?? {};
        const isKnown = isDeepStrictEqual(known, queuedMessages) && (known.length === 0 || isDeepStrictEqual(knownQueue, queue));
        return isKnown ? current : { ...current, queuedMessages, queue };
      }),
    );
  }

  /** Reads the metadata and the agent state again, because they may have changed while there was no connection. */
  async #refresh() {
    const read = {};
    this.#lastRefresh = read;
    const backoff = new Backoff(REFRESH_PAUSES);
    while (this.socket.isConnected && this.#lastRefresh === read) {
      try {
        const session = await this.client.getSession(this.id);
        this.metadata.adopt(session.metadataVersion, session.metadata);
        this.agentState.adopt(session.agentStateVersion, session.agentState);
        return;
      } catch (error) {
        this.#handleHubError(error);
        await sleep(backoff.next(), undefined, { ref: false });
      }
    }
  }

  #handleHubError(error) {
    if (error instanceof HubError && error.isSessionMissing) this.socket.fail(`The session does not exist: ${error.message}`);
    else this.log.debug(error.message);
  }

  /**
   * Sends a keep-alive, because the hub marks an aborted session inactive until the next keep-alive. After the ping, the hub has
   * processed the answer to `abort`.
   */
  async #reactivate() {
    await this.socket.ping();
    this.#sendAlive();
  }

  #sendAlive() {
    if (this.isEnding) return;
    const { mode, permissionMode, modelMode } = this.settings;
    const activity = this.#activity.take();
    this.socket.send('session-alive', {
      sid: this.id,
      time: Date.now(),
      thinking: this.agent.thinking,
      mode,
      permissionMode,
      ...(modelMode === undefined ? {} : { modelMode }),
      ...(activity && this.agent.thinking ? { activity } : {}),
    });
  }

  #inBackground(work) {
    work.catch((error) => !this.isEnding && this.log.warn(error.message));
  }
}
