// A server on this computer, in place of a hub.

import { once } from 'node:events';
import http from 'node:http';

/**
 * Starts a server, which ends with the test.
 * @param {import('node:test').TestContext} t
 * @param {http.RequestListener} handler
 * @returns {Promise<{url: string, stop: () => void}>}
 */
export async function startServer(t, handler) {
  const server = http.createServer(handler).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  t.after(stop);
  return { stop, url: `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}` };
}
