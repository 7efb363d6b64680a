/** A TCP proxy in front of the hub, which can silently lose connections, like a mobile network. */

import { connect, createServer } from 'node:net';

/**
 * Starts a proxy on its own port. The proxy is stopped after the test.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {{port: number}} hub
 * @returns {Promise<{url: string, dropConnections: () => number}>} `dropConnections`: stops forwarding on the open connections
 *   without closing them, and returns their number; new connections work
 */
export async function startTcpProxy(t, hub) {
  /** The sockets of each connection: from the client, and to the hub. */
  const connections = new Set();
  const server = createServer((client) => {
    const upstream = connect(hub.port, '127.0.0.1');
    const connection = [client, upstream];
    connections.add(connection);
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ]) {
      from.pipe(to);
      // Both ends close connections abruptly.
      from.on('error', () => to.destroy());
      from.on('close', () => connections.delete(connection));
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const lost = new Set();
  t.after(() => {
    for (const socket of [...connections, ...lost].flat()) socket.destroy();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`,
    dropConnections: () => {
      const { size } = connections;
      for (const connection of connections) {
        lost.add(connection);
        for (const socket of connection) {
          socket.unpipe().removeAllListeners();
          // Reads and discards all data, so that neither end notices the lost connection.
          socket.on('error', () => {}).resume();
        }
      }
      connections.clear();
      return size;
    },
  };
}
