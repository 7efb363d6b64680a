/**
 * A web client: REST, the event stream (SSE) and the event socket. The client can also send malformed requests. `npm run smoke` uses this
 * client as well.
 */

import http from 'node:http';
import https from 'node:https';
import { Recorder, deferred, withTimeout } from '../../lib/await.mjs';
import { parseJson } from '../../lib/json.mjs';

/** @typedef {http.IncomingMessage & {upgraded?: import('node:stream').Duplex}} Response `upgraded`: the socket of an upgrade */

/**
 * Sends one HTTP request, by default on a new connection. Does not normalize the path.
 * @param {string} url the server's address
 * @param {string} method
 * @param {string} path
 * @param {{headers?: Record<string, string>, body?: string, agent?: http.Agent | false, timeoutMs?: number}} [options]
 * @returns {Promise<Response>} when the headers have arrived
 */
function open(url, method, path, { headers = {}, body, agent = false, timeoutMs = 60_000 } = {}) {
  const { protocol, hostname, port, pathname } = new URL(url);
  const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
  const send = protocol === 'https:' ? https.request : http.request;
  const request = send({ hostname, port, method, path: pathname.replace(/\/$/, '') + path, agent, headers: { ...length, ...headers } });
  const { promise, resolve, reject } = deferred();
  request.once('error', reject);
  request.once('response', resolve);
  request.once('upgrade', (response, socket, head) => {
    socket.unshift(head);
    resolve(Object.assign(response, { upgraded: socket }));
  });
  request.end(body);
  return withTimeout(promise, `a response to ${method} ${path}`, timeoutMs);
}

async function readText(response) {
  const chunks = [];
  for await (const chunk of response) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

/**
 * @param {string} request
 * @param {Response} response
 * @param {string} text
 * @returns {Answer}
 */
function toAnswer(request, { statusCode, headers }, text) {
  return {
    request,
    status: statusCode,
    headers: /** @type {Record<string, string>} */ (headers),
    text,
    body: parseJson(text) ?? undefined,
  };
}

const UPGRADE = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'ZTJlLXRlc3Qtb2YtaHViIQ==',
};

/**
 * @typedef {object} Answer
 * @property {string} request method and path, for error messages
 * @property {number} status
 * @property {Record<string, string>} headers
 * @property {string} text
 * @property {any} body the parsed JSON; undefined if the text is not JSON
 */

export class Web {
  /** @param {{url: string, token: string | null, agent?: http.Agent | false}} options `agent`: keeps connections open */
  constructor({ url, token, agent = false }) {
    this.url = url;
    this.token = token;
    this.agent = agent;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {{headers?: Record<string, string>, body?: unknown, raw?: string, timeoutMs?: number}} [options] `body` is sent as
   *   JSON, `raw` unchanged
   * @returns {Promise<Answer>}
   */
  async request(method, path, { headers = {}, body, raw = body === undefined ? undefined : JSON.stringify(body), timeoutMs } = {}) {
    const type = raw === undefined ? {} : { 'content-type': 'application/json' };
    const options = { headers: { ...this.#authorization(), ...type, ...headers }, body: raw, agent: this.agent, timeoutMs };
    const response = await open(this.url, method, path, options);
    return toAnswer(`${method} ${path}`, response, await readText(response));
  }

  get = (path, options) => this.request('GET', path, options);
  post = (path, body, options) => this.request('POST', path, { body, ...options });
  patch = (path, body, options) => this.request('PATCH', path, { body, ...options });
  delete = (path, options) => this.request('DELETE', path, options);

  /** Opens the session with a tag. Creates the session if there is none. */
  async openSession({ tag, metadata = {}, ...rest }) {
    const body = { tag, metadata: { path: `/code/${tag}`, host: 'e2e', ...metadata }, ...rest };
    const answer = await this.post('/cli/sessions', body);
    if (answer.status !== 200) throw new Error(`POST /cli/sessions: ${answer.status} ${answer.text}`);
    return answer.body.session;
  }

  async registerMachine({ id, metadata = {}, ...rest }) {
    const body = { id, metadata: { host: 'e2e', platform: 'linux', ...metadata }, ...rest };
    const answer = await this.post('/cli/machines', body);
    if (answer.status !== 200) throw new Error(`POST /cli/machines: ${answer.status} ${answer.text}`);
    return answer.body.machine;
  }

  async readSession(id) {
    const answer = await this.get(`/api/sessions/${id}`);
    if (answer.status !== 200) throw new Error(`GET /api/sessions/${id}: ${answer.status} ${answer.text}`);
    return answer.body.session;
  }

  /** Reads all messages of a session in ascending order. */
  async readHistory(sessionId) {
    const messages = [];
    for (;;) {
      const after = messages.at(-1)?.seq ?? 0;
      const { body } = await this.get(`/api/sessions/${sessionId}/messages?limit=200&afterSeq=${after}`);
      messages.push(...body.messages);
      if (!body.hasMore) return messages;
    }
  }

  /**
   * Requests a WebSocket upgrade. Closes the socket if the hub accepts the upgrade (status 101).
   * @returns {Promise<Answer>}
   */
  async upgrade(path, { headers = {}, authorize = true } = {}) {
    const authorization = authorize ? this.#authorization() : {};
    const response = await open(this.url, 'GET', path, { headers: { ...UPGRADE, ...authorization, ...headers } });
    if (response.upgraded) {
      response.upgraded.destroy();
      return toAnswer(`upgrade of ${path}`, response, '');
    }
    return toAnswer(`upgrade of ${path}`, response, await readText(response));
  }

  /**
   * Opens the event stream (SSE).
   * @param {Record<string, string>} [query]
   * @param {{lastEventId?: string, tokenInQuery?: boolean}} [options]
   * @returns {Promise<Feed>}
   */
  async openStream(query = {}, { lastEventId, tokenInQuery = false } = {}) {
    const parameters = new URLSearchParams(tokenInQuery ? { ...query, token: this.token } : query);
    const headers = { accept: 'text/event-stream', ...(tokenInQuery ? {} : this.#authorization()) };
    if (lastEventId !== undefined) headers['last-event-id'] = lastEventId;
    const response = await open(this.url, 'GET', `/api/events?${parameters}`, { headers });
    if (response.statusCode !== 200) throw new Error(`GET /api/events: ${response.statusCode} ${await readText(response)}`);
    const feed = new Feed(`the events of the stream ${new URLSearchParams(query)}`, () => response.destroy());
    feed.headers = response.headers;
    readSse(response, feed);
    return feed;
  }

  /**
   * Opens the event socket.
   * @param {Record<string, string>} [query] `lastEventId`: resumes after this event
   * @param {{tokenInQuery?: boolean}} [options]
   * @returns {Promise<Feed>}
   */
  async openSocket(query = {}, { tokenInQuery = true } = {}) {
    const parameters = new URLSearchParams(tokenInQuery ? { ...query, token: this.token } : query);
    const address = `${this.url.replace(/^http/, 'ws')}/api/events?${parameters}`;
    const socket = new WebSocket(address, tokenInQuery ? undefined : /** @type {any} */ ({ headers: this.#authorization() }));
    const opened = deferred();
    const feed = new Feed(`the events of the socket ${new URLSearchParams(query)}`, () => socket.close());
    feed.send = (text) => socket.send(text);
    socket.onopen = () => opened.resolve();
    socket.onerror = () => opened.reject(new Error('The event socket was refused.'));
    socket.onmessage = ({ data }) => feed.push(JSON.parse(data));
    socket.onclose = ({ code, reason }) => feed.end(`the socket was closed with ${code} ${reason}`);
    await withTimeout(opened.promise, 'the event socket to open');
    return feed;
  }

  #authorization() {
    return this.token === null ? {} : { authorization: `Bearer ${this.token}` };
  }
}

/** The events of a stream or socket: `{eventId, type, ...}`. @extends {Recorder<any>} */
export class Feed extends Recorder {
  /** The headers of the response. Only for a stream. @type {http.IncomingHttpHeaders | undefined} */
  headers;
  /** Sends a text. Only for a socket. @type {((text: string) => void) | undefined} */
  send;

  constructor(source, close) {
    super(source);
    this.close = close;
  }

  /** Waits for the first event, `connection-changed`. */
  waitForGreeting() {
    return this.first(({ type }) => type === 'connection-changed', 'the greeting');
  }

  /** Waits for the next event of a type, optionally of one session. */
  nextEvent(type, sessionId) {
    const matches = (event) => event.type === type && (sessionId === undefined || event.sessionId === sessionId);
    return this.next(matches, `the event ${type}`);
  }

  /** Waits for the next `session-updated` event whose data has these values. @param {Record<string, unknown>} data */
  nextUpdate(data, ms) {
    const matches = (event) => event.type === 'session-updated' && Object.entries(data).every(([key, value]) => event.data[key] === value);
    return this.next(matches, `an update to ${JSON.stringify(data)}`, ms);
  }
}

/** Parses the `id:` and `data:` lines of a stream. An empty line ends an event. The hub sends each event's data as one line. */
async function readSse(response, feed) {
  let incompleteLine = '';
  let event = {};
  try {
    for await (const chunk of response.setEncoding('utf8')) {
      const lines = (incompleteLine + chunk).split('\n');
      incompleteLine = lines.pop();
      for (const line of lines) {
        if (line === '') {
          if (event.data !== undefined) feed.push({ ...(event.id === undefined ? {} : { eventId: event.id }), ...JSON.parse(event.data) });
          event = {};
        } else {
          const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line);
          event[field] = value;
        }
      }
    }
    feed.end('the stream ended');
  } catch (error) {
    feed.end(`the stream failed (${error.message})`);
  }
}
