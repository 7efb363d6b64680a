/** The methods a socket serves: registration with the hub, and answers to its calls. */

/**
 * Longest answer, in bytes on the wire. The hub's WebSocket takes 32 MiB a message and closes the socket above that, so
 * a longer answer must become an error instead.
 */
const MAX_ANSWER = 31 * 1024 * 1024;

export class RpcServer {
  /**
   * @param {{socket: import('./hub-socket.mjs').HubSocket, scopeId: string, log: {debug: (text: string) => void},
   *   methods: Record<string, (params: any) => unknown>}} options `scopeId`: the session or machine the methods belong to
   */
  constructor({ socket, scopeId, methods, log }) {
    this.socket = socket;
    this.scopeId = scopeId;
    this.methods = new Map(Object.entries(methods));
    this.log = log;
    socket.onCall(async (request, ack) => {
      const answer = await this.answer(request);
      if (typeof ack === 'function') ack(answer);
    });
  }

  /** Tells the hub which methods are served; to be repeated on every connection, as the hub forgets them with the old. */
  register() {
    for (const name of this.methods.keys()) this.socket.send('rpc-register', { method: `${this.scopeId}:${name}` });
  }

  unregister() {
    for (const name of this.methods.keys()) this.socket.send('rpc-unregister', { method: `${this.scopeId}:${name}` });
  }

  /**
   * Answers a call.
   * @param {{method: string, params?: string}} request `params` is JSON text
   * @returns {Promise<string>} JSON text; a failure is `{success: false, error}`
   */
  async answer(request) {
    try {
      const name = this.#nameOf(request?.method);
      const handler = this.methods.get(name);
      if (!handler) return failure(`No handler registered for ${name}`);
      this.log.debug(`call: ${name}`);
      const text = JSON.stringify((await handler(paramsOf(request.params))) ?? { success: true });
      // Escaped once more inside the acknowledgement; only a long text is worth measuring exactly.
      if (text.length > MAX_ANSWER / 6 && Buffer.byteLength(JSON.stringify(text)) > MAX_ANSWER) {
        return failure(`The answer of ${name} is too large to send: ${Math.ceil(text.length / 1024 / 1024)} MB.`);
      }
      return text;
    } catch (error) {
      return failure(error.message);
    }
  }

  /** A method's own name: the hub puts the session's or machine's id in front. */
  #nameOf(method) {
    if (typeof method !== 'string') return String(method);
    const prefix = `${this.scopeId}:`;
    return method.startsWith(prefix) ? method.slice(prefix.length) : method;
  }
}

function paramsOf(text) {
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

function failure(error) {
  return JSON.stringify({ success: false, error });
}
