/** The RPC methods of a socket: their registration at the hub, and the answers to calls. */

import { PathError } from './paths.mjs';

/** Limit on an answer, in encoded bytes. An error replaces a longer answer, because the hub closes the socket on a message above 32 MiB. */
const MAX_ANSWER_BYTES = 31 * 1024 * 1024;

export class RpcServer {
  /**
   * @param {{socket: import('./hub-socket.mjs').HubSocket, scopeId: string, log: {debug: (text: string) => void},
   *   methods: Record<string, (params: any) => unknown>}} options `scopeId`: id of the session or machine
   */
  constructor({ socket, scopeId, methods, log }) {
    this.socket = socket;
    this.scopeId = scopeId;
    this.methods = new Map(Object.entries(methods));
    this.log = log;
    socket.onRpc(async (request, ack) => {
      const answer = await this.answer(request);
      if (typeof ack === 'function') ack(answer);
    });
  }

  /** Registers the methods. To be called on every connection, because the hub removes the methods of a closed socket. */
  register() {
    for (const name of this.methods.keys()) this.socket.send('rpc-register', { method: `${this.scopeId}:${name}` });
  }

  unregister() {
    for (const name of this.methods.keys()) this.socket.send('rpc-unregister', { method: `${this.scopeId}:${name}` });
  }

  /**
   * Runs a call.
   * @param {{method: string, params?: string}} request `params` is JSON text
   * @returns {Promise<string>} JSON text; a failure is `{success: false, error, code?}`
   */
  async answer(request) {
    try {
      const name = this.#nameOf(request?.method);
      const handler = this.methods.get(name);
      if (!handler) return failure(`No handler registered for ${name}`);
      this.log.debug(`call: ${name}`);
      const text = JSON.stringify((await handler(parseParams(request.params))) ?? { success: true });
      // The acknowledgement escapes the text a second time, to at most 6 times its length.
      if (text.length > MAX_ANSWER_BYTES / 6 && Buffer.byteLength(JSON.stringify(text)) > MAX_ANSWER_BYTES) {
        return failure(`The result of ${name} is too large to send: ${Math.ceil(text.length / 1024 / 1024)} MB.`);
      }
      return text;
    } catch (error) {
      return failure(error.message, error instanceof PathError ? error.code : undefined);
    }
  }

  /** Returns the method's name without its prefix, which is the id of the session or machine. */
  #nameOf(method) {
    if (typeof method !== 'string') return String(method);
    const prefix = `${this.scopeId}:`;
    return method.startsWith(prefix) ? method.slice(prefix.length) : method;
  }
}

function parseParams(text) {
  if (text === undefined || text === null || text === '') return {};
  let params = text;
  if (typeof text === 'string') {
    try {
      params = JSON.parse(text);
    } catch {
      throw new Error('"params" is not JSON.');
    }
  }
  if (params === null) return {};
  if (typeof params !== 'object' || Array.isArray(params)) throw new Error('"params" must be a JSON object.');
  return params;
}

/** @param {string} error @param {string} [code] */
function failure(error, code) {
  return JSON.stringify({ success: false, error, code });
}
