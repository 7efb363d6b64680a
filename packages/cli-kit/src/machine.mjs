/** The machine that this process serves: its connection to the hub, its RPC methods and its metadata. */

import { arch, homedir, hostname, platform } from 'node:os';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { directoryMethods } from './directories.mjs';
import { checkPaths } from './files.mjs';
import { HubSocket } from './hub-socket.mjs';
import { RpcServer } from './rpc.mjs';
import { VersionedValue } from './versioned-value.mjs';

/** Interval of the keep-alive. The hub considers a machine offline after 45 s without a keep-alive. */
const KEEP_ALIVE_INTERVAL_MS = 20_000;

export class Machine {
  #timer = null;

  /**
   * Creates or finds the machine at the hub, without connecting.
   * @param {import('./app.mjs').ServingOptions} options
   * @returns {Promise<Machine>}
   */
  static async open(options) {
    const metadata = {
      host: hostname(),
      platform: platform(),
      arch: arch(),
      version: options.program.version,
      displayName: `${hostname()} (${path.basename(options.root) || options.root})`,
      homeDir: homedir(),
      installationId: options.store.installationId,
      ...(await options.program.describeMachine?.(options)),
    };
    const runnerState = {
      status: 'running',
      pid: process.pid,
      startedAt: Date.now(),
      directories: options.spawner.directories,
    };
    const { client, log, machineId: id } = options;
    const known = await client.findMachine(id);
    const { installationId = metadata.installationId, host } = known?.metadata ?? {};
    if (known?.active && installationId !== metadata.installationId)
      log.warn(
        `Another installation, on ${host}, also serves machine ${id}: the hub starts sessions on either. Give each its own --machine-id.`,
      );
    const open = () => client.openMachine({ id, metadata, runnerState });
    const machine = await options.outage.callWithRetry('machine', open, options.startTimeoutMs);
    return new Machine(options, { machine, metadata, runnerState });
  }

  constructor(options, { machine, metadata, runnerState }) {
    const { log, spawner } = options;
    this.id = machine.id;
    this.log = log;
    this.ownMetadata = metadata;
    this.ownRunnerState = runnerState;
    this.keepAliveIntervalMs = options.machineKeepAliveIntervalMs ?? KEEP_ALIVE_INTERVAL_MS;
    this.describeMachine = () => options.program.describeMachine?.(options);
    this.socket = new HubSocket({
      ...options,
      auth: { machineId: this.id, installationId: options.store.installationId, clientType: 'machine-scoped' },
    });
    const origin = { socket: this.socket, scope: { machineId: this.id }, record: machine };
    this.metadata = new VersionedValue({ ...origin, event: 'machine-update-metadata', field: 'metadata' });
    this.runnerState = new VersionedValue({ ...origin, event: 'machine-update-state', field: 'runnerState' });
    // Ends a session whose process crashed. Otherwise the session stays active until its keep-alive times out.
    spawner.onCrash = (sid) => this.socket.send('session-end', { sid, time: Date.now() });
    this.rpc = new RpcServer({
      socket: this.socket,
      scopeId: this.id,
      log,
      methods: {
        spawnSession: (params) => spawner.spawn(params),
        ...(options.program.canFork ? { forkSession: (params) => spawner.fork(params) } : {}),
        checkPathExists: ({ paths }) => checkPaths(spawner.directories, paths),
        ...directoryMethods(spawner.directories),
        ...options.program.machineMethods?.(options),
      },
    });
    this.socket.on('connect', () => {
      this.rpc.register();
      this.#sendAlive();
    });
    this.socket.on('update', (body) => {
      if (body.t !== 'update-machine' || body.machineId !== this.id) return;
      if (body.metadata) this.metadata.adopt(body.metadata.version, body.metadata.value);
      if (body.runnerState) this.runnerState.adopt(body.runnerState.version, body.runnerState.value);
    });
  }

  /** Connects, and reconnects until `end` is called. Resolves when the first connection is open. */
  async connect() {
    this.#timer = setInterval(() => {
      this.#sendAlive();
      this.#publishChanges().catch((error) => this.log.debug(error.message));
    }, this.keepAliveIntervalMs);
    this.socket.connect();
    await this.socket.whenConnected();
    await this.socket.ping(1500);
    this.#merge(this.metadata, this.ownMetadata);
    this.#merge(this.runnerState, this.ownRunnerState);
  }

  async end() {
    clearInterval(this.#timer);
    if (this.socket.isConnected) {
      let timer;
      await Promise.race([
        this.#merge(this.runnerState, { status: 'stopped', stoppedAt: Date.now() }),
        new Promise((resolve) => {
          timer = setTimeout(resolve, 2000);
        }),
      ]);
      clearTimeout(timer);
      this.rpc.unregister();
      await this.socket.ping(1500);
    }
    this.socket.close();
  }

  /** Sets this process's fields of a versioned value. Leaves the other fields unchanged. */
  #merge(versioned, ownFields) {
    return versioned
      .mutate((current) => {
        const merged = { ...current, ...ownFields };
        return isDeepStrictEqual(merged, current) ? current : merged;
      })
      .catch((error) => this.log.debug(error.message));
  }

  /** Publishes metadata that has changed, for example because an agent was installed. */
  async #publishChanges() {
    const described = await this.describeMachine();
    if (!this.socket.isConnected || isDeepStrictEqual(this.ownMetadata, { ...this.ownMetadata, ...described })) return;
    Object.assign(this.ownMetadata, described);
    await this.#merge(this.metadata, described);
  }

  #sendAlive() {
    this.socket.send('machine-alive', { machineId: this.id, time: Date.now() });
  }
}
