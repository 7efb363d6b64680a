/** A proxy that serves the hub under a prefix. */

import { createServer, request as sendRequest } from 'node:http';

/**
 * Starts a proxy that serves the hub at `/hub` and at `/hub/other`, as if they were two hubs, and answers 404 to all other paths, which it
 * adds to `otherPaths`. The proxy is stopped after the test.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {{url: string}} hub
 */
export async function startPrefixProxy(t, hub) {
  /** @type {string[]} */
  const otherPaths = [];
  /** @param {import('node:http').IncomingMessage} request @returns {import('node:http').ClientRequest | null} */
  const forward = ({ url = '/', method, headers }) => {
    const [prefix] = /^\/hub(\/other)?(?=\/|$)/.exec(url) ?? [];
    if (prefix !== undefined) return sendRequest(hub.url, { path: url.slice(prefix.length) || '/', method, headers });
    otherPaths.push(url);
    return null;
  };
  const server = createServer((request, response) => {
    const forwarded = forward(request);
    if (forwarded === null) return void response.writeHead(404).end();
    request.pipe(forwarded);
    forwarded.on('error', () => response.destroy());
    forwarded.on('response', (answer) => answer.pipe(response.writeHead(answer.statusCode ?? 502, answer.rawHeaders)));
  });
  server.on('upgrade', (request, socket, head) => {
    const forwarded = forward(request);
    if (forwarded === null) return void socket.destroy();
    forwarded.on('error', () => socket.destroy()).end();
    forwarded.on('upgrade', (answer, upstream, firstFrames) => {
      const headers = answer.rawHeaders.map((value, index) => value + (index % 2 === 0 ? ': ' : '\r\n')).join('');
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${headers}\r\n`);
      // Frames may arrive together with the headers.
      upstream.unshift(firstFrames);
      socket.unshift(head);
      for (const [from, to] of [
        [socket, upstream],
        [upstream, socket],
      ])
        from.on('error', () => to.destroy()).pipe(to);
      t.after(() => socket.destroy());
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return { url: `http://127.0.0.1:${port}/hub`, otherPaths };
}
