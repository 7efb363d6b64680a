/** A plain WebSocket to the endpoint of CLIs, for frames that the official client never sends. */

import { Recorder, deferred, eventually, withTimeout } from '../../../scripts/lib/await.mjs';

export const SOCKET = '/socket.io/?EIO=4&transport=websocket';

/** Opens a socket to a hub or another Socket.IO server. It is closed after the test. */
export async function openRawSocket(t, target, { headers = {}, query = '' } = {}) {
  const socket = new WebSocket(`${target.url.replace(/^http/, 'ws')}${SOCKET}${query}`, /** @type {any} */ ({ headers }));
  const frames = new Recorder('the frames of the raw socket');
  const closed = deferred();
  socket.onclose = ({ code, reason }) => {
    frames.end(`the socket was closed with ${code} ${reason}`);
    closed.resolve({ code, reason });
  };
  const opened = new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = () => reject(new Error('The upgrade was refused.'));
  });
  socket.onmessage = ({ data }) => frames.push(data);
  t.after(() => socket.close());
  await withTimeout(opened, 'the raw socket to open');
  return {
    frames,
    send: (data) => socket.send(data),
    close: () => socket.close(),
    /** Waits for the hub's close frame; the local runtime closes the TCP connection some time later. */
    waitForCloseFrame: (what) => eventually(() => socket.readyState >= WebSocket.CLOSING, what),
    /** Waits until the socket is closed, and returns the code and reason of the hub's close frame. */
    waitForClose: () => withTimeout(closed.promise, 'the socket to be closed'),
  };
}
