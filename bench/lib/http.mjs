/** An HTTP client: one keep-alive connection, one request at a time. */

import { Agent, request } from 'node:http';

/** @typedef {{method: string, path: string, body?: string}} Request */
/** @typedef {{status: number, bytes: number, text: () => string, json: () => any}} Response `bytes`: the length of the body */

export class Connection {
  /** Limit on the wait for the next bytes of a response. */
  timeoutMs = 60_000;

  /** @param {string} base such as `http://127.0.0.1:8787` @param {Record<string, string>} headers sent with each request */
  constructor(base, headers = {}) {
    const { hostname, port } = new URL(base);
    this.host = hostname;
    this.port = Number(port);
    this.headers = headers;
    this.agent = new Agent({ keepAlive: true, maxSockets: 1 });
  }

  /** Returns a GET request, which can be sent many times. @returns {Request} */
  get(path) {
    return { method: 'GET', path };
  }

  /** Returns a request with a JSON body. @returns {Request} */
  withBody(method, path, body) {
    return { method, path, body: JSON.stringify(body) };
  }

  /** Rejects when the connection closes or times out. @param {Request} options @returns {Promise<Response>} */
  send({ method, path, body }) {
    const { host, port, agent, timeoutMs } = this;
    const headers = body === undefined ? this.headers : { ...this.headers, 'Content-Type': 'application/json' };
    return new Promise((resolve, reject) => {
      const sent = request({ host, port, agent, method, path, headers, timeout: timeoutMs }, (response) => {
        const parts = [];
        response.on('data', (part) => parts.push(part));
        response.on('error', reject);
        response.on('end', () => {
          const bytes = Buffer.concat(parts);
          const text = () => bytes.toString('utf8');
          resolve({ status: response.statusCode, bytes: bytes.length, text, json: () => JSON.parse(text()) });
        });
      });
      sent.on('error', reject);
      sent.on('timeout', () =>
        sent.destroy(new Error(`timed out after ${timeoutMs / 1000} s waiting for the response to ${method} ${path}`)),
      );
      sent.end(body);
    });
  }

  close() {
    this.agent.destroy();
  }
}

/** Sends one request on a new connection. Rejects if the status is not 2xx. */
export async function sendOnce(base, method, path, body = undefined, headers = {}) {
  const connection = new Connection(base, headers);
  try {
    const options = body === undefined ? { method, path } : connection.withBody(method, path, body);
    return expectOk(await connection.send(options), `${method} ${path}`);
  } finally {
    connection.close();
  }
}

/** Returns a response with a status of 2xx. @throws {Error} for another status, with the status and the start of the body */
export function expectOk(response, description) {
  if (response.status >= 200 && response.status < 300) return response;
  throw new Error(`${description} returned status ${response.status}: ${response.text().slice(0, 300)}`);
}
