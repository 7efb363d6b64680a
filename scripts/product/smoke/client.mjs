// The clients of a smoke test: a web client that measures its requests, and CLIs. Everything that they create has the tag of this
// run, and is removed by `cleanUp`.

import { randomUUID } from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { REACH_ADVICE } from '../../../packages/cli-kit/src/hub-client.mjs';
import { inLanes } from '../../lib/parallel.mjs';
import { Cli } from '../clients/cli.mjs';
import { Web } from '../clients/web.mjs';
import { parseServerTiming } from './figures.mjs';

/** A fault of the hub. The message is a sentence for the user. */
export class Failure extends Error {}

/** The reason why a check was skipped. It is not a fault of the hub. */
export class Skipped extends Error {}

/** How many connections and concurrent requests the web client has at most. */
export const LANES = 16;

/** The client closes a connection that is unused for this long. If the server closed it, a request at that moment would fail. */
const IDLE_SOCKET_MS = 1_000;

/** The pause before a deletion is tried again. */
const RETRY_DELAY_MS = 1_000;

const KEEP_ALIVE_INTERVAL_MS = 10_000;

export class SmokeClient {
  /** The regions in which the worker and D1 ran, as far as the platform reported them. */
  regions = { worker: new Set(), d1: new Set() };
  /** @type {Map<string, string | undefined>} the ids of the created sessions by tag; undefined until the hub has answered */
  #sessions = new Map();
  #openings = new Set();
  #clis = new Set();
  #keepAlives = new Set();
  #run = `smoke-${randomUUID()}`;
  #cleanUp;

  /**
   * @param {{url: string, token: string, cleanUpTimeoutMs?: number}} options `url`: without a trailing slash; `cleanUpTimeoutMs`: how long
   *   deletions are repeated after errors
   */
  constructor({ url, token, cleanUpTimeoutMs = 60_000 }) {
    this.url = url;
    this.token = token;
    this.cleanUpTimeoutMs = cleanUpTimeoutMs;
    const { Agent } = url.startsWith('https:') ? https : http;
    this.agent = new Agent({ keepAlive: true, maxSockets: LANES, timeout: IDLE_SOCKET_MS });
    this.web = new Web({ url, token, agent: this.agent });
  }

  /** Returns a web client with another token. @param {string | null} token */
  webWith(token) {
    return new Web({ url: this.url, token, agent: this.agent });
  }

  /**
   * Sends a request and records its latency.
   * @param {string} method
   * @param {string} path
   * @param {{figures?: import('./figures.mjs').Figures, web?: Web, status?: number, body?: unknown, timeoutMs?: number}} [options]
   *   `status`: the expected status
   * @returns {Promise<import('../clients/web.mjs').Answer & {timing: import('./figures.mjs').ServerTiming}>}
   * @throws {Failure} without an answer, or after another status
   */
  async request(method, path, { figures, web = this.web, status = 200, ...options } = {}) {
    const startedAt = performance.now();
    let answer;
    try {
      answer = await web.request(method, path, options);
    } catch (error) {
      const advice = error.code === 'ECONNREFUSED' ? `. ${REACH_ADVICE}` : '';
      throw new Failure(`No answer to ${method} ${path}: ${error.message || error.code}${advice}`);
    }
    const timing = parseServerTiming(/** @type {string | undefined} */ (answer.headers['server-timing']));
    figures?.add(performance.now() - startedAt, timing);
    const colo = String(answer.headers['cf-ray'] ?? '').split('-')[1];
    if (colo) this.regions.worker.add(colo);
    if (timing.region) this.regions.d1.add(timing.region);
    if (answer.status !== status) {
      throw Object.assign(
        new Failure(`${method} ${path} was answered with status ${answer.status}: ${answer.body?.error ?? answer.text.slice(0, 200)}`),
        { status: answer.status },
      );
    }
    return { ...answer, timing };
  }

  /**
   * Creates a session of this run.
   * @param {string} name
   * @param {import('./figures.mjs').Figures} [figures]
   */
  async openSession(name, figures) {
    if (this.#cleanUp) throw new Failure('The run was ended.');
    const tag = `${this.#run}-${name}`;
    // Recorded before the request: the hub may create the session although the answer is lost.
    this.#sessions.set(tag, undefined);
    const opening = this.#requestSession(tag, figures);
    this.#openings.add(opening);
    try {
      const session = await opening;
      this.#sessions.set(tag, session.id);
      return session;
    } finally {
      this.#openings.delete(opening);
    }
  }

  async #requestSession(tag, figures) {
    const metadata = { path: '/smoke-test', host: hostname() || 'unknown', name: 'Smoke test' };
    return (await this.request('POST', '/cli/sessions', { figures, body: { tag, metadata } })).body.session;
  }

  /**
   * Connects a CLI for a session.
   * @param {string} sessionId
   * @param {import('../clients/cli.mjs').TokenIn} [tokenIn]
   */
  async connectCli(sessionId, tokenIn = 'header') {
    if (this.#cleanUp) throw new Failure('The run was ended.');
    const cli = new Cli(this, { token: this.token, tokenIn, auth: { sessionId, features: ['upload-chunks'] } });
    this.#clis.add(cli);
    try {
      return await cli.connect();
    } catch (error) {
      throw new Failure(`A CLI could not connect: ${error.description?.message ?? error.message}`);
    }
  }

  /** Keeps a session active until `stopKeepAlives`. */
  startKeepAlive(cli, sessionId) {
    const send = () => cli.socket.connected && cli.socket.emit('session-alive', { sid: sessionId, time: Date.now() });
    this.#keepAlives.add(setInterval(send, KEEP_ALIVE_INTERVAL_MS));
  }

  stopKeepAlives() {
    for (const timer of this.#keepAlives) clearInterval(timer);
    this.#keepAlives.clear();
  }

  /**
   * Disconnects the CLIs and deletes the sessions of this run. Later calls wait for the first call.
   * @returns {Promise<number>} the number of deleted sessions
   * @throws {Failure} with the ids of the sessions that remain
   */
  cleanUp() {
    return (this.#cleanUp ??= this.#disconnectAndDelete());
  }

  async #disconnectAndDelete() {
    this.stopKeepAlives();
    for (const cli of this.#clis) cli.close();
    // A session that is created after its deletion would stay.
    await Promise.allSettled(this.#openings);
    const deadline = Date.now() + this.cleanUpTimeoutMs;
    const count = this.#sessions.size;
    /** @type {Error | undefined} */
    let lastError;
    await inLanes([...this.#sessions], LANES, async ([tag, id]) => {
      try {
        await this.#deleteSession(tag, id, deadline);
        this.#sessions.delete(tag);
      } catch (error) {
        lastError = error;
      }
    });
    this.agent.destroy();
    if (lastError === undefined) return count;
    const remaining = [...this.#sessions].map(([tag, id]) => id ?? `the session with tag ${tag}`);
    throw new Failure(`Not deleted: ${remaining.join(', ')}. Delete these sessions in the console. The cause: ${lastError.message}`);
  }

  async #deleteSession(tag, knownId, deadline) {
    for (;;) {
      try {
        const id = knownId ?? (await this.#requestSession(tag)).id;
        // Ends the session without its CLI, which may be disconnected. Only inactive sessions can be deleted.
        for (const [method, path] of [
          ['POST', `/api/sessions/${id}/archive`],
          ['DELETE', `/api/sessions/${id}`],
        ]) {
          await this.request(method, path).catch((error) => {
            if (error.status !== 404) throw error;
          });
        }
        return;
      } catch (error) {
        if (Date.now() + RETRY_DELAY_MS > deadline) throw error;
        await sleep(RETRY_DELAY_MS);
      }
    }
  }
}
