/**
 * A CLI on a bare TCP connection, without a WebSocket library. Like a computer that has lost its network, this CLI does not answer a
 * close frame by itself.
 */

import { openTcpSocket } from './tcp-socket.mjs';

export class RawCli {
  #socket;

  /** @param {{after: (step: () => unknown) => void}} t @param {import('./hub.mjs').Hub} hub @param {string} namespace of the token in the upgrade */
  constructor(t, hub, namespace) {
    this.#socket = openTcpSocket(t, hub.port, `/socket.io/?EIO=4&transport=websocket&token=${encodeURIComponent(hub.token(namespace))}`);
  }

  /** What the hub has sent. */
  get received() {
    return this.#socket.received.all;
  }

  /** Connects with this payload of CONNECT. */
  async connect(auth) {
    await this.#socket.next('0{');
    this.send(`40/cli,${JSON.stringify(auth)}`);
    await this.#socket.next('40/cli,');
  }

  /** Registers an RPC method. The CLI never answers its calls. */
  async register(method) {
    this.send(`42/cli,1["rpc-register",${JSON.stringify({ method })}]`);
    await this.#socket.next('43/cli,1');
  }

  send(text) {
    this.#socket.send(text);
  }

  /** Answers the hub's close frame. */
  answerClose() {
    const normalClosure = Buffer.from([1000 >> 8, 1000 & 0xff]);
    this.#socket.send(normalClosure, { opcode: OPCODE_CLOSE });
  }

  /** Waits for the hub's close frame, and returns its code. */
  async waitForCloseFrame() {
    const head = String.fromCharCode(0x80 | OPCODE_CLOSE);
    const data = await this.#socket.next(head);
    return Buffer.from(data, 'latin1').readUInt16BE(data.indexOf(head) + 2);
  }

  /** Ends the TCP connection. */
  destroy() {
    this.#socket.destroy();
  }
}

/** The opcode of a close frame (RFC 6455 section 5.2). */
const OPCODE_CLOSE = 8;
