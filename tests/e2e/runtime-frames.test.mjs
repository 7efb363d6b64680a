/** How the runtime delivers frames that RFC 6455 forbids, without the hub. docs/design/cli-connections.md explains the consequences. */

import { after, test } from 'node:test';
import { Miniflare } from 'miniflare';
import { readWranglerToml } from '../../scripts/lib/worker-settings.mjs';
import { openTcpSocket } from './lib/tcp-socket.mjs';

/** Answers each message with its characters in hexadecimal, on sockets of the worker and on sockets of an object. */
const SCRIPT = `
const describe = (data) => 'got ' + [...data].map((character) => character.codePointAt(0).toString(16)).join(' ');

export class Echo {
  constructor(state) { this.state = state; }
  fetch() {
    const [client, server] = Object.values(new WebSocketPair());
    this.state.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }
  webSocketMessage(socket, data) { socket.send(describe(data)); }
}

export default {
  fetch(request, env) {
    if (new URL(request.url).pathname === '/object') return env.ECHO.get(env.ECHO.idFromName('')).fetch(request);
    const [client, server] = Object.values(new WebSocketPair());
    server.accept();
    server.addEventListener('message', ({ data }) => server.send(describe(data)));
    return new Response(null, { status: 101, webSocket: client });
  },
};`;

const { compatibility_date: compatibilityDate, compatibility_flags: compatibilityFlags } = readWranglerToml();
const runtime = new Miniflare({
  workers: [
    {
      name: 'echo',
      modules: [{ type: 'ESModule', path: 'echo.js', contents: SCRIPT }],
      compatibilityDate,
      compatibilityFlags,
      durableObjects: { ECHO: { className: 'Echo', useSQLite: true } },
      unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }],
    },
  ],
});
after(() => runtime.dispose());
const port = Number((await runtime.unsafeGetDirectURL('echo')).port);

for (const path of ['/worker', '/object']) {
  test(`a text frame that is not UTF-8 arrives with replacement characters, like one that has them (${path})`, async (t) => {
    const socket = openTcpSocket(t, port, path);
    await socket.next('101');
    for (const [bytes, characters] of [
      [[0x61, 0xff, 0x62], '61 fffd 62'],
      [[0xc3], 'fffd'],
      [[0xed, 0xa0, 0x80], 'fffd fffd fffd'],
      [[0xef, 0xbf, 0xbd], 'fffd'],
    ]) {
      socket.send(Buffer.from(bytes));
      await socket.next(`got ${characters}`);
    }
  });

  test(`a frame that is not masked arrives like any other (${path})`, async (t) => {
    const socket = openTcpSocket(t, port, path);
    await socket.next('101');
    socket.send('a', { isMasked: false });
    await socket.next('got 61');
    socket.send('b');
    await socket.next('got 62');
  });
}
