/** A WebSocket over a bare TCP connection, for frames that no WebSocket library sends. */

import net from 'node:net';
import { Recorder } from '../../../scripts/lib/await.mjs';

/** Opens a WebSocket, which is closed after the test. */
export function openTcpSocket(t, port, path) {
  const socket = net.connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  const received = new Recorder('the bytes of the socket');
  socket.on('data', (data) => received.push(data.toString('latin1')));
  socket.on('close', () => received.end('the socket was closed'));
  const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: YmFkLWlucHV0LW9mLWh1YiE='];
  socket.write([`GET ${path} HTTP/1.1`, 'Host: 127.0.0.1', ...upgrade, '', ''].join('\r\n'));
  return {
    received,
    destroy: () => socket.destroy(),
    /**
     * Sends a frame of at most 125 bytes, by default a text.
     * @param {string | Buffer} text
     * @param {{isMasked?: boolean, opcode?: number}} [options] the mask is zero, so the bytes are sent unchanged
     */
    send(text, { isMasked = true, opcode = 1 } = {}) {
      const payload = Buffer.from(text);
      const head = isMasked ? [0x80 | opcode, 0x80 | payload.length, 0, 0, 0, 0] : [0x80 | opcode, payload.length];
      socket.write(Buffer.concat([Buffer.from(head), payload]));
    },
    /** Waits for data that contains `part`. Each character of `part` is a byte. */
    next: (part) => received.next((data) => data.includes(part), JSON.stringify(part)),
  };
}
