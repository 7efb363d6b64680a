/**
 * The leanest HTTP/1.1 client that will do: one keep-alive connection, one request at a time, written straight to the
 * socket. A general client costs several times more than a trivial answer of the runtime, and would be what is measured.
 */

import { connect } from 'node:net';

const HEADER_END = Buffer.from('\r\n\r\n');
const LINE_END = Buffer.from('\r\n');
const EMPTY = Buffer.alloc(0);

/** An answer: `status`, `bytes` of the body, and the body on demand. */
class Answer {
  constructor(status, head, body) {
    this.status = status;
    this.head = head;
    this.body = body;
  }

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

/** Takes the body out of the chunked coding (RFC 9112, 7.1); null when the last chunk is not there yet. */
function dechunk(buffer) {
  const parts = [];
  let at = 0;
  for (;;) {
    const lineEnd = buffer.indexOf(LINE_END, at);
    if (lineEnd === -1) return null;
    const size = Number.parseInt(buffer.latin1Slice(at, lineEnd), 16);
    const start = lineEnd + 2;
    if (buffer.length < start + size + 2) return null;
    if (size === 0) return Buffer.concat(parts);
    parts.push(buffer.subarray(start, start + size));
    at = start + size + 2;
  }
}

/** One connection. Not for two requests at once: open one for each unit of concurrency. */
export class Connection {
  /** @param {string} base such as `http://127.0.0.1:8787` @param {Record<string, string>} headers sent with each request */
  constructor(base, headers = {}) {
    const url = new URL(base);
    this.host = url.hostname;
    this.port = Number(url.port);
    this.common = Object.entries({ Host: url.host, ...headers })
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('');
    this.socket = null;
  }

  /** A GET request as text, to be made once and sent many times. */
  get(path) {
    return `GET ${path} HTTP/1.1\r\n${this.common}\r\n`;
  }

  /** A request with a JSON body as text. */
  withBody(method, path, body) {
    const text = JSON.stringify(body);
    return (
      `${method} ${path} HTTP/1.1\r\n${this.common}Content-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
    );
  }

  /** Sends a request made by `get` or `withBody`; resolves to its Answer, rejects when the connection breaks. */
  send(request) {
    if (this.socket === null) this.open();
    return new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
      this.socket.write(request);
    });
  }

  open() {
    const socket = connect({ host: this.host, port: this.port, noDelay: true });
    this.socket = socket;
    this.forget();
    socket.on('data', (chunk) => this.receive(chunk));
    const broken = (error) => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.reject?.(error ?? new Error('the server closed the connection before it answered'));
      this.resolve = this.reject = null;
    };
    socket.on('error', broken);
    socket.on('close', () => broken());
  }

  /** Nothing of an answer is held: the state between two of them. */
  forget() {
    this.status = 0;
    this.head = '';
    this.length = -1;
    this.parts = [];
    this.held = 0;
  }

  receive(chunk) {
    this.parts.push(chunk);
    this.held += chunk.length;
    if (this.status === 0 && !this.readHead()) return;
    if (this.length >= 0) {
      if (this.held >= this.length) this.finish(this.joined());
      return;
    }
    // The last chunk is five bytes; looking for them first spares a long body from being scanned at each arrival.
    if (chunk.length >= 5 && chunk.latin1Slice(chunk.length - 5) !== '0\r\n\r\n') return;
    const body = dechunk(this.joined());
    if (body !== null) this.finish(body);
  }

  joined() {
    if (this.parts.length !== 1) this.parts = [Buffer.concat(this.parts)];
    return this.parts[0];
  }

  readHead() {
    const buffer = this.joined();
    const end = buffer.indexOf(HEADER_END);
    if (end === -1) return false;
    this.head = buffer.latin1Slice(0, end);
    this.status = Number(this.head.slice(9, 12));
    const length = /\r\ncontent-length: *(\d+)/i.exec(this.head);
    this.length = length ? Number(length[1]) : /\r\ntransfer-encoding: *chunked/i.test(this.head) ? -1 : 0;
    const rest = buffer.subarray(end + HEADER_END.length);
    this.parts = [rest];
    this.held = rest.length;
    return true;
  }

  finish(body) {
    const answer = new Answer(this.status, this.head, body.length === 0 ? EMPTY : body);
    const { resolve } = this;
    const closes = /\r\nconnection: *close/i.test(this.head);
    this.forget();
    this.resolve = this.reject = null;
    if (closes) this.close();
    resolve?.(answer);
  }

  close() {
    const { socket } = this;
    this.socket = null;
    socket?.destroy();
  }
}

/** Sends one request over a connection of its own; rejects when the status is not 2xx. */
export async function once(base, method, path, { headers = {}, body } = {}) {
  const connection = new Connection(base, headers);
  try {
    const request = body === undefined && method === 'GET' ? connection.get(path) : connection.withBody(method, path, body ?? {});
    return expectOk(await connection.send(request), `${method} ${path}`);
  } finally {
    connection.close();
  }
}

/** The answer itself, or an error that carries the status and the start of the body. */
export function expectOk(answer, what) {
  if (answer.status >= 200 && answer.status < 300) return answer;
  throw new Error(`${what} answered ${answer.status}: ${answer.text().slice(0, 300)}`);
}
