/**
 * A CLI on a bare TCP connection, without a WebSocket library. Like a computer that has lost its network, this CLI does not answer a
 * close frame by itself.
 */

import { randomBytes } from 'node:crypto';
import net from 'node:net';
import { Recorder, deferred, withTimeout } from '../../../scripts/lib/await.mjs';

/** The opcodes of frames (RFC 6455 section 5.2). */
const OPCODES = { text: 1, close: 8 };
const HEAD_END = '\r\n\r\n';

/** Encodes a frame of a client, which must be masked (RFC 6455 section 5.3). @param {Buffer} payload */
function encodeFrame(opcode, payload) {
  if (payload.length > 125) throw new Error(`The frame has ${payload.length} bytes, but only short frames are supported.`);
  const mask = randomBytes(4);
  const head = Buffer.from([0x80 | opcode, 0x80 | payload.length]);
  return Buffer.concat([head, mask, payload.map((byte, index) => byte ^ mask[index % 4])]);
}

/** Returns the first frame of a server, and the bytes after the frame; undefined while the frame is incomplete. */
function decodeFrame(bytes) {
  if (bytes.length < 2) return undefined;
  const [opcode, short] = [bytes[0] & 0x0f, bytes[1] & 0x7f];
  if (short === 127) throw new Error('The frame has more than 64 KiB.');
  const head = short === 126 ? 4 : 2;
  if (bytes.length < head) return undefined;
  const end = head + (short === 126 ? bytes.readUInt16BE(2) : short);
  return bytes.length < end ? undefined : { opcode, payload: bytes.subarray(head, end), rest: bytes.subarray(end) };
}

export class RawCli {
  /** Received text frames. */
  frames = new Recorder('the frames of the raw CLI');
  #socket;
  #unread = Buffer.alloc(0);
  #isUpgraded = false;
  #closed = deferred();

  /** @param {import('./hub.mjs').Hub} hub @param {string} namespace of the token in the upgrade */
  constructor(hub, namespace) {
    this.#socket = net.connect(hub.port, '127.0.0.1');
    this.#socket.on('error', (error) => this.frames.end(error.message));
    this.#socket.on('data', (bytes) => this.#read(bytes));
    const head = [
      'GET /socket.io/?EIO=4&transport=websocket HTTP/1.1',
      `Host: 127.0.0.1:${hub.port}`,
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}`,
      `Authorization: Bearer ${hub.token(namespace)}`,
    ];
    this.#socket.write(head.join('\r\n') + HEAD_END);
  }

  /** Connects with this payload of CONNECT. */
  async connect(auth) {
    await this.#nextFrame('0', 'the open packet');
    this.send(`40/cli,${JSON.stringify(auth)}`);
    await this.#nextFrame('40/cli,', 'the answer to CONNECT');
  }

  /** Registers an RPC method. The CLI never answers its calls. */
  async register(method) {
    this.send(`42/cli,1["rpc-register",${JSON.stringify({ method })}]`);
    await this.#nextFrame('43/cli,1', 'the acknowledgement of rpc-register');
  }

  send(text) {
    this.#socket.write(encodeFrame(OPCODES.text, Buffer.from(text)));
  }

  /** Answers the hub's close frame. */
  answerClose() {
    const normalClosure = Buffer.from([1000 >> 8, 1000 & 0xff]);
    this.#socket.write(encodeFrame(OPCODES.close, normalClosure));
  }

  /** Waits for the hub's close frame, and returns its code. */
  waitForCloseFrame() {
    return withTimeout(this.#closed.promise, 'the close frame');
  }

  /** Ends the TCP connection. */
  destroy() {
    this.#socket.destroy();
  }

  #nextFrame(start, what) {
    return this.frames.next((frame) => frame.startsWith(start), what);
  }

  #read(bytes) {
    this.#unread = Buffer.concat([this.#unread, bytes]);
    if (!this.#isUpgraded) {
      const end = this.#unread.indexOf(HEAD_END);
      if (end < 0) return;
      const head = this.#unread.toString('latin1', 0, end);
      if (!head.startsWith('HTTP/1.1 101 ')) return this.frames.end(`the upgrade was refused: ${head}`);
      this.#isUpgraded = true;
      this.#unread = this.#unread.subarray(end + HEAD_END.length);
    }
    for (let frame = decodeFrame(this.#unread); frame !== undefined; frame = decodeFrame(this.#unread)) {
      this.#unread = frame.rest;
      if (frame.opcode === OPCODES.text) this.frames.push(frame.payload.toString());
      if (frame.opcode === OPCODES.close) this.#closed.resolve(frame.payload.readUInt16BE(0));
    }
  }
}
