/**
 * Simulates an old or broken hub with the built worker: responses have no `Server-Timing`, and the answers of CLIs to calls are lost.
 * Replaces the entry module.
 */

import Worker, { NamespaceHub as BuiltHub } from './index.js';

/** The start of a Socket.IO acknowledgement. */
const ACK = '43/cli,';

export class NamespaceHub extends BuiltHub {
  webSocketMessage(socket, frame) {
    return String(frame).startsWith(ACK) ? undefined : super.webSocketMessage(socket, frame);
  }
}

export default class extends Worker {
  async fetch(request) {
    const response = await super.fetch(request);
    if (response.webSocket) return response;
    const degraded = new Response(response.body, response);
    degraded.headers.delete('server-timing');
    return degraded;
  }
}
