/**
 * A minimal HTTP/1.1 client: one keep-alive connection on a plain socket, one request at a time. A general client would dominate the
 * figures: it needs several times the CPU time of a trivial request in the runtime.
 */

import { connect } from 'node:net';

const HEADER_END = Buffer.from('\r\n\r\n');
const LINE_END = Buffer.from('\r\n');
const EMPTY = Buffer.alloc(0);

class HttpResponse {
  constructor(status, head, body) {
    this.status = status;
    this.head = head;
    this.body = body;
  }

  /** Length of the body in bytes. */
  get bytes() {
    return this.body.length;
  }

  text() {
    return this.body.toString('utf8');
  }

  json() {
    return JSON.parse(this.text());
  }
}

/** Decodes the chunked coding (RFC 9112, 7.1). Returns null while the last chunk is missing. */
function dechunk(buffer) {
  const parts = [];
  let offset = 0;
  for (;;) {
    const lineEnd = buffer.indexOf(LINE_END, offset);
    if (lineEnd === -1) return null;
    const size = Number.parseInt(buffer.latin1Slice(offset, lineEnd), 16);
    const start = lineEnd + 2;
    if (buffer.length < start + size + 2) return null;
    if (size === 0) return Buffer.concat(parts);
    parts.push(buffer.subarray(start, start + size));
    offset = start + size + 2;
  }
}

/** One connection, for one request at a time. */
export class Connection {
  /** @param {string} base such as `http://127.0.0.1:8787` @param {Record<string, string>} headers sent with each request */
  constructor(base, headers = {}) {
    const url = new URL(base);
    this.host = url.hostname;
    this.port = Number(url.port);
    this.commonHeaders = Object.entries({ Host: url.host, ...headers })
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('');
    this.socket = null;
    /** Limit on the wait for the next bytes of a response. */
    this.timeoutMs = 60_000;
  }

  /** Returns the text of a GET request, which can be sent many times. */
  get(path) {
    return `GET ${path} HTTP/1.1\r\n${this.commonHeaders}\r\n`;
  }

  /** Returns the text of a request with a JSON body. */
  withBody(method, path, body) {
    const text = JSON.stringify(body);
    return (
      `${method} ${path} HTTP/1.1\r\n${this.commonHeaders}Content-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
    );
  }

  /** Sends a text from `get` or `withBody`. Resolves to the HttpResponse; rejects when the connection closes or times out. */
  send(request) {
    if (this.socket === null) this.open();
    return new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
      this.request = request;
      this.socket.write(request);
    });
  }

  open() {
    const socket = connect({ host: this.host, port: this.port, noDelay: true });
    this.socket = socket;
    this.reset();
    socket.on('data', (chunk) => this.receive(chunk));
    const fail = (error) => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.reject?.(error ?? new Error('the server closed the connection before it responded'));
      this.resolve = this.reject = null;
    };
    socket.on('error', fail);
    socket.on('close', () => fail());
    socket.setTimeout(this.timeoutMs, () => {
      const [line] = this.request.split('\r\n', 1);
      socket.destroy(new Error(`timed out after ${this.timeoutMs / 1000} s waiting for the response to ${line}`));
    });
  }

  /** Discards the state of the current response. */
  reset() {
    this.status = 0;
    this.head = '';
    this.length = -1;
    this.parts = [];
    this.received = 0;
  }

  receive(chunk) {
    this.parts.push(chunk);
    this.received += chunk.length;
    if (this.status === 0 && !this.readHead()) return;
    if (this.length >= 0) {
      if (this.received >= this.length) this.finish(this.joinParts());
      return;
    }
    // Decodes the body only if these bytes may be its end. Decoding the whole body at each arrival would take too long.
    if (chunk.length >= 5 && chunk.latin1Slice(chunk.length - 5) !== '0\r\n\r\n') return;
    const body = dechunk(this.joinParts());
    if (body !== null) this.finish(body);
  }

  joinParts() {
    if (this.parts.length !== 1) this.parts = [Buffer.concat(this.parts)];
    return this.parts[0];
  }

  readHead() {
    const buffer = this.joinParts();
    const end = buffer.indexOf(HEADER_END);
    if (end === -1) return false;
    this.head = buffer.latin1Slice(0, end);
    this.status = Number(this.head.slice(9, 12));
    const length = /\r\ncontent-length: *(\d+)/i.exec(this.head);
    this.length = length ? Number(length[1]) : /\r\ntransfer-encoding: *chunked/i.test(this.head) ? -1 : 0;
    const startOfBody = buffer.subarray(end + HEADER_END.length);
    this.parts = [startOfBody];
    this.received = startOfBody.length;
    return true;
  }

  finish(body) {
    const response = new HttpResponse(this.status, this.head, body.length === 0 ? EMPTY : body);
    const { resolve } = this;
    const closes = /\r\nconnection: *close/i.test(this.head);
    this.reset();
    this.resolve = this.reject = null;
    if (closes) this.close();
    resolve?.(response);
  }

  close() {
    const { socket } = this;
    this.socket = null;
    socket?.destroy();
  }
}

/**
 * Sends one request on a new connection. Rejects if the status is not 2xx.
 * @param {string} base
 * @param {string} method
 * @param {string} path
 * @param {{headers?: Record<string, string>, body?: unknown}} [options]
 */
export async function sendOnce(base, method, path, { headers = {}, body } = {}) {
  const connection = new Connection(base, headers);
  try {
    const request = body === undefined && method === 'GET' ? connection.get(path) : connection.withBody(method, path, body ?? {});
    return expectOk(await connection.send(request), `${method} ${path}`);
  } finally {
    connection.close();
  }
}

/** Returns a response with a status of 2xx. @throws {Error} for another status, with the status and the start of the body */
export function expectOk(response, request) {
  if (response.status >= 200 && response.status < 300) return response;
  throw new Error(`${request} returned status ${response.status}: ${response.text().slice(0, 300)}`);
}
