/**
 * The floor: minimal JavaScript for the work of each row, without authentication, routing or checks. The floor's figures are the cost of
 * the runtime. The difference to the hub's figures is the cost of the hub.
 */

import { WriteQueue, SELECT_PAGE } from './write-queue.mjs';
import { ack, connectReply, event, open, parse } from './packets.mjs';

/** Returns the only Durable Object of the floor. One object is enough, because a namespace of the hub is one object, too. */
function floorObject(env) {
  return env.FLOOR.get(env.FLOOR.idFromName('floor'));
}

/** Opens an SSE stream of events from the object. As in the hub, the worker has a WebSocket to the object, so that the object can hibernate. */
async function openEventStream(env, sessionId) {
  const url = `http://floor/subscribe?sessionId=${sessionId}`;
  const { webSocket: socket } = await floorObject(env).fetch(url, { headers: { Upgrade: 'websocket' } });
  const { readable, writable } = new IdentityTransformStream();
  const writer = writable.getWriter();
  const encoder = new TextEncoder();
  const write = (text) => writer.write(encoder.encode(text)).catch(() => socket.close());
  socket.accept();
  socket.addEventListener('message', ({ data }) => write(`data: ${data}\n\n`));
  write(': open\n\n');
  return new Response(readable, { headers: { 'Content-Type': 'text/event-stream' } });
}

/** Responds with a page of 50 messages, which D1 returns as one text. */
async function readPage(env, beforeSeq) {
  const row = await env.DB.prepare(SELECT_PAGE).bind(beforeSeq, 50).first();
  return new Response(`{"messages":[${row.page ?? ''}]}`, { headers: { 'Content-Type': 'application/json' } });
}

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case '/events':
        return openEventStream(env, url.searchParams.get('sessionId'));
      case '/page':
        return readPage(env, Number(url.searchParams.get('beforeSeq')));
      default:
        return floorObject(env).fetch(request);
    }
  },
};

/** The Durable Object: minimal Engine.IO and Socket.IO for the official client, pending RPCs, and a write queue. */
export class Floor {
  constructor(state, env) {
    this.state = state;
    this.writeQueue = new WriteQueue(env.DB);
    this.pendingCalls = new Map();
    this.lastCall = 0;
  }

  async fetch(request) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case '/rpc':
        return new Response(await this.call(url.searchParams.get('path')));
      case '/messages':
        return this.postMessage(await request.json());
      case '/subscribe':
        return this.accept(`web:${url.searchParams.get('sessionId')}`);
      case '/socket.io/':
        return this.accept('cli');
      default:
        return new Response('not found', { status: 404 });
    }
  }

  accept(tag) {
    const [client, server] = Object.values(new WebSocketPair());
    this.state.acceptWebSocket(server, [tag]);
    if (tag === 'cli') server.send(open());
    return new Response(null, /** @type {ResponseInit} */ ({ status: 101, webSocket: client }));
  }

  /** Calls the first CLI. Resolves to the first argument of the ack. */
  call(path) {
    const id = ++this.lastCall;
    const params = JSON.stringify({ cwd: '/', filePath: path });
    return new Promise((resolve) => {
      this.pendingCalls.set(id, resolve);
      this.state.getWebSockets('cli')[0].send(event(id, 'rpc-request', { method: 'floor:call', params }));
    });
  }

  /** Handles a message of a web client: commits it, sends it to the CLI, and then answers. */
  async postMessage({ text, localId }) {
    const content = { role: 'user', content: { type: 'text', text }, meta: { sentFrom: 'web' } };
    const record = await this.writeQueue.append(content, localId);
    const update = { id: record.id, seq: record.seq, body: { t: 'new-message', message: { localId, content } } };
    this.state.getWebSockets('cli')[0].send(event(null, 'update', update));
    return Response.json({ ok: true, message: record });
  }

  /** Sends an event to the web clients of a session. */
  publish(sessionId, data) {
    const subscribers = this.state.getWebSockets(`web:${sessionId}`);
    if (subscribers.length === 0) return;
    const text = JSON.stringify(data);
    for (const subscriber of subscribers) subscriber.send(text);
  }

  async webSocketMessage(socket, frame) {
    const packet = parse(frame);
    if (packet.kind === 'connect') return socket.send(connectReply());
    if (packet.kind === 'ack') {
      this.pendingCalls.get(packet.id)?.(packet.data[0]);
      this.pendingCalls.delete(packet.id);
      return;
    }
    if (packet.kind !== 'event') return;
    const [name, payload] = packet.data;
    if (name !== 'message') {
      if (packet.id !== null) socket.send(ack(packet.id, { ok: true }));
      return;
    }
    const { sid, message, localId } = payload;
    const record = await this.writeQueue.append(message, localId);
    if (packet.id !== null) socket.send(ack(packet.id, { ok: true, id: record.id, seq: record.seq }));
    this.publish(sid, { type: 'message-received', message: { ...record, content: message } });
  }

  webSocketClose(socket, code) {
    // The codes 1005 and 1006 must not be sent (RFC 6455, 7.4.1).
    socket.close(code === 1005 || code === 1006 ? 1000 : code);
  }
}
