/** A web client's events: the stream (SSE) over a plain HTTP connection, or the WebSocket. */

import { get } from 'node:http';

/** Opens the event socket; otherwise as `subscribe`. The connection names the host and the bearer. */
export function subscribeSocket({ host, port, common }, path, listener) {
  const bearer = /^Authorization: Bearer (.*)\r$/m.exec(common)[1];
  const socket = new WebSocket(`ws://${host}:${port}${path}&token=${bearer}`);
  return new Promise((resolve, reject) => {
    socket.addEventListener('error', () => reject(new Error(`the event socket ${path} broke`)));
    socket.addEventListener('message', ({ data }) => {
      const at = performance.now();
      listener(JSON.parse(data), at);
      resolve(() => socket.close());
    });
  });
}

/**
 * Opens the stream and resolves with a function that closes it, when its first bytes have come. `listener(event, at)`
 * gets each JSON event and the time of its arrival (`performance.now()` before it was parsed).
 */
export function subscribe(connection, path, listener) {
  const headers = connection.common
    .split('\r\n')
    .filter(Boolean)
    .map((line) => line.split(/: (.*)/).slice(0, 2));
  return new Promise((resolve, reject) => {
    const options = { host: connection.host, port: connection.port, path, headers: Object.fromEntries(headers), agent: false };
    const request = get(options, (response) => {
      if (response.statusCode !== 200) {
        request.destroy();
        reject(new Error(`the event stream ${path} answered ${response.statusCode}`));
        return;
      }
      let held = '';
      response.setEncoding('utf8');
      response.once('data', () => resolve(() => request.destroy()));
      response.on('error', () => {});
      response.on('data', (chunk) => {
        const at = performance.now();
        const frames = (held + chunk).split('\n\n');
        held = frames.pop();
        for (const frame of frames) {
          const data = frame.split('\n').filter((line) => line.startsWith('data:'));
          if (data.length > 0) listener(JSON.parse(data.map((line) => line.slice(5)).join('\n')), at);
        }
      });
    });
    request.once('error', reject);
  });
}
