/** A local push service (RFC 8030) with mock browsers, which checks the signature of every message. */

import { createECDH, createPublicKey, randomBytes, verify } from 'node:crypto';
import http from 'node:http';
import ece from 'http_ece';
import { Recorder } from '../../../scripts/lib/await.mjs';

const parsePart = (part) => JSON.parse(Buffer.from(part, 'base64url').toString());

/** Parses a VAPID header (RFC 8292): its claims and its key. @throws {Error} if the signature is invalid */
function parseVapid(authorization) {
  const [, token, key] = /^vapid t=([\w.-]+), k=([\w-]+)$/.exec(authorization);
  const [head, claims, signature] = token.split('.');
  const point = Buffer.from(key, 'base64url');
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((part) => part.toString('base64url'));
  const publicKey = createPublicKey({ format: 'jwk', key: { kty: 'EC', crv: 'P-256', x, y } });
  const signed = Buffer.from(`${head}.${claims}`);
  const options = /** @type {const} */ ({ key: publicKey, dsaEncoding: 'ieee-p1363' });
  if (parsePart(head).alg !== 'ES256' || !verify('sha256', signed, options, Buffer.from(signature, 'base64url'))) {
    throw new Error(`The signature of ${authorization} is invalid.`);
  }
  return { ...parsePart(claims), key, token };
}

/** @typedef {{status?: number, headers?: Record<string, string>}} Response */

export class PushService {
  /** All received messages: `{path, receivedAt, headers, claims, body}`. */
  messages = [];
  /** The messages and the response function of each browser, by path. */
  #browsers = new Map();
  #server = http.createServer((request, response) => this.#handleRequest(request, response));

  /** @param {{after: (step: () => unknown) => void}} t */
  async start(t) {
    await new Promise((resolve) => this.#server.listen(0, '127.0.0.1', () => resolve(undefined)));
    t.after(() => this.#stop());
    return this;
  }

  get origin() {
    return `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (this.#server.address()).port}`;
  }

  /**
   * Adds a browser with its own keys.
   * @param {(message: {body: Buffer}) => Response | undefined | Promise<Response>} [respond] returns the response to a message: 201 by
   *   default; undefined for no response
   */
  addBrowser(respond = () => ({})) {
    const keys = createECDH('prime256v1');
    const auth = randomBytes(16);
    const path = `/send/${this.#browsers.size + 1}`;
    const messages = new Recorder(`the messages for ${path}`);
    this.#browsers.set(path, { messages, respond });
    const p256dh = keys.generateKeys('base64url');
    return {
      path,
      subscription: { endpoint: this.origin + path, keys: { p256dh, auth: auth.toString('base64url') } },
      /** Waits for the next message, and decrypts it with a library that the hub does not use. */
      next: async () => {
        const message = await messages.next(() => true, 'a push');
        const text = ece.decrypt(message.body, { version: 'aes128gcm', privateKey: keys, authSecret: auth });
        return { ...message, payload: JSON.parse(text) };
      },
    };
  }

  async #handleRequest(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { url: path, headers } = request;
    const body = Buffer.concat(chunks);
    const claims = parseVapid(headers.authorization);
    const message = { path, receivedAt: Date.now(), headers, claims, body };
    this.messages.push(message);
    const browser = this.#browsers.get(path);
    browser?.messages.push(message);
    const answer = browser ? await browser.respond(message) : { status: 404 };
    if (answer) response.writeHead(answer.status ?? 201, answer.headers).end();
  }

  #stop() {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
