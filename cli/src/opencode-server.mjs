/**
 * The server that each process of opencode runs on this computer. The bridge reads from it what opencode does not send by the Agent Client
 * Protocol: the steps and the permission requests of sub-agents. Without an answer to such a request, the turn does not end.
 */

import { once } from 'node:events';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { OpencodeEvents } from './translate/opencode-events.mjs';

/** Time between two attempts to connect. */
const RETRY_MS = 1000;
/** How long the start of a session waits for the connection. */
const CONNECT_TIMEOUT_MS = 5000;
const DATA = 'data: ';

export class OpencodeServer {
  #url;
  #port;
  /** The open requests of sub-agents, by opencode's id. @type {Map<string, AbortController>} */
  #open = new Map();

  constructor(port) {
    this.#port = port;
    this.#url = `http://127.0.0.1:${port}`;
  }

  /** Chooses a free port for the server of a new process. */
  static async reserve() {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
    server.close();
    await once(server, 'close');
    return new OpencodeServer(port);
  }

  /** The arguments with which opencode must be started. */
  get args() {
    return ['--port', String(this.#port)];
  }

  /**
   * Follows the events until the process ends. Resolves when the first connection is open, at the latest after 5 s.
   * @param {{sessionId: string, cwd: string, env: Record<string, string>, ended: Promise<unknown>, log: {debug: (text: string) => void},
   *   onUpdate: (update: object) => void, onPermission: (params: object, signal: AbortSignal) => Promise<any>}} options
   *   `sessionId`: the session of the agent itself
   */
  async follow({ sessionId, cwd, env, ended, log, onUpdate, onPermission }) {
    const stop = new AbortController();
    ended.then(() => stop.abort());
    const { OPENCODE_SERVER_USERNAME: user = 'opencode', OPENCODE_SERVER_PASSWORD: password } = env;
    const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
    const request = (path, init = {}) =>
      fetch(`${this.#url}${path}?directory=${encodeURIComponent(cwd)}`, {
        ...init,
        headers: { authorization, 'content-type': 'application/json' },
        signal: stop.signal,
      });
    const events = new OpencodeEvents(sessionId);
    const answer = async ({ requestId, params }) => {
      const withdrawal = new AbortController();
      this.#open.set(requestId, withdrawal);
      const { outcome } = await onPermission(params, AbortSignal.any([withdrawal.signal, stop.signal]));
      if (!this.#open.delete(requestId)) return;
      const reply = outcome.optionId ?? 'reject';
      const { status } = await request(`/permission/${requestId}/reply`, { method: 'POST', body: JSON.stringify({ reply }) });
      if (status !== 200) throw new Error(`opencode answered ${status} to the answer of a sub-agent's request`);
    };
    const handle = (
      /** @type {import('./translate/opencode-events.mjs').EventReport} */ { updates = [], request: newRequest, settled = [] },
    ) => {
      for (const update of updates) onUpdate(update);
      for (const id of settled) {
        this.#open.get(id)?.abort();
        this.#open.delete(id);
      }
      if (newRequest) answer(newRequest).catch((error) => log.debug(error.message));
    };
    const read = async (onOpen) => {
      const { body, status } = await request('/event');
      if (status !== 200) throw new Error(`its server answered ${status}`);
      onOpen();
      for await (const line of createInterface({ input: Readable.fromWeb(/** @type {any} */ (body)) })) {
        if (line.startsWith(DATA)) handle(events.read(JSON.parse(line.slice(DATA.length))));
      }
    };
    const isOpen = new Promise((resolve) => {
      const keepReading = async () => {
        while (!stop.signal.aborted) {
          await read(() => resolve(undefined)).catch((error) => log.debug(`opencode's events: ${error.message}`));
          await delay(RETRY_MS, undefined, { signal: stop.signal }).catch(() => {});
        }
      };
      void keepReading();
    });
    await Promise.race([isOpen, ended, delay(CONNECT_TIMEOUT_MS, undefined, { signal: stop.signal, ref: false }).catch(() => {})]);
  }
}
