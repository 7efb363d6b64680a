/** Web clients that receive events, over an SSE stream or a WebSocket. */

import { get } from 'node:http';

import { withTimeout } from '../../scripts/lib/await.mjs';

/** Time limit for the first event. */
const TIMEOUT_MS = 60_000;

/** Like `subscribe`, over a WebSocket instead of an SSE stream. */
export function subscribeSocket({ host, port, headers }, path, listener) {
  const socket = new WebSocket(`ws://${host}:${port}${path}&token=${headers.Authorization.slice('Bearer '.length)}`);
  const opened = new Promise((resolve, reject) => {
    const fail = () => reject(new Error(`the event socket ${path} failed`));
    socket.addEventListener('error', fail);
    socket.addEventListener('close', fail);
    socket.addEventListener('message', ({ data }) => {
      const at = performance.now();
      listener(JSON.parse(data), at);
      resolve(() => socket.close());
    });
  });
  return withTimeout(opened, `the first event of the socket ${path}`, TIMEOUT_MS);
}

/**
 * Opens an SSE stream with the host and the headers of a connection. Resolves after the first bytes, to a function that closes the stream.
 * `listener(event, at)`: `at` is the time of `performance.now()` at which the event arrived, before parsing.
 */
export function subscribe({ host, port, headers }, path, listener) {
  const opened = new Promise((resolve, reject) => {
    const request = get({ host, port, path, headers, agent: false }, (response) => {
      if (response.statusCode !== 200) {
        request.destroy();
        reject(new Error(`the event stream ${path} returned status ${response.statusCode}`));
        return;
      }
      let incompleteFrame = '';
      response.setEncoding('utf8');
      response.once('data', () => resolve(() => request.destroy()));
      response.on('error', () => {});
      response.on('data', (chunk) => {
        const at = performance.now();
        const frames = (incompleteFrame + chunk).split('\n\n');
        incompleteFrame = frames.pop();
        for (const frame of frames) {
          const data = frame.split('\n').filter((line) => line.startsWith('data:'));
          if (data.length > 0) listener(JSON.parse(data.map((line) => line.slice(5)).join('\n')), at);
        }
      });
    });
    request.once('error', reject);
  });
  return withTimeout(opened, `the first event of the stream ${path}`, TIMEOUT_MS);
}
