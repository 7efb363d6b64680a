/** The server of `wrangler tail` on the fake platform: sends the log lines of a Worker as one event, and closes. */

import { createHash } from 'node:crypto';

/** The constant of RFC 6455 for `Sec-WebSocket-Accept`. */
const HANDSHAKE_GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const TEXT = 0x81;
const CLOSE = 0x88;
const NORMAL_CLOSURE = Buffer.from([0x03, 0xe8]);

/** Returns an unmasked frame. @param {number} type @param {Buffer} payload */
function toFrame(type, payload) {
  if (payload.length < 126) return Buffer.concat([Buffer.from([type, payload.length]), payload]);
  const header = Buffer.alloc(10);
  header.writeUInt8(type, 0);
  header.writeUInt8(127, 1);
  header.writeBigUInt64BE(BigInt(payload.length), 2);
  return Buffer.concat([header, payload]);
}

/**
 * Serves the upgrade request of `wrangler tail`.
 * @param {import('node:http').IncomingMessage} request
 * @param {import('node:stream').Duplex} socket
 * @param {{lines: object[], filters: {query?: string}[]}} log of `lines`, those that contain the queries of all filters are sent
 */
export function serveTail(request, socket, { lines, filters }) {
  const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}${HANDSHAKE_GUID}`).digest('base64');
  const head = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade', `Sec-WebSocket-Accept: ${accept}`];
  socket.write(`${[...head, `Sec-WebSocket-Protocol: ${request.headers['sec-websocket-protocol']}`].join('\r\n')}\r\n\r\n`);
  const texts = lines.map((line) => JSON.stringify(line)).filter((text) => filters.every(({ query = '' }) => text.includes(query)));
  const logs = texts.map((text) => ({ level: 'log', timestamp: 0, message: [text] }));
  const event = { outcome: 'ok', scriptName: 'hub', exceptions: [], eventTimestamp: 0, event: null, logs };
  socket.on('error', () => socket.destroy());
  // wrangler sends its first frame when it is ready for events.
  socket.once('data', () => {
    socket.write(toFrame(TEXT, Buffer.from(JSON.stringify(event))));
    socket.end(toFrame(CLOSE, NORMAL_CLOSURE));
  });
}
