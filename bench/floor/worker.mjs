/**
 * The floor: minimal JavaScript for the work of each row, without authentication, routing or checks. Its figures are the
 * cost of the runtime; the difference to the hub's figures is the cost of the hub.
 */

import { Journal, PAGE } from './journal.mjs';
import { ack, connectReply, event, open, parse } from './packets.mjs';

const TEXT = 'a response of a minimal worker';

/** The only Durable Object, because a namespace of the hub is one object. */
function object(env) {
  return env.FLOOR.get(env.FLOOR.idFromName('floor'));
}

/**
 * An SSE stream of the worker with events from a WebSocket to the object. The hub has the same structure, which lets the
 * object hibernate.
 */
async function events(env, sessionId) {
  const url = `http://floor/subscribe?sessionId=${sessionId}`;
  const { webSocket: socket } = await object(env).fetch(url, { headers: { Upgrade: 'websocket' } });
  const { readable, writable } = new IdentityTransformStream();
  const writer = writable.getWriter();
  const encoder = new TextEncoder();
  const write = (text) => writer.write(encoder.encode(text)).catch(() => socket.close());
  socket.accept();
  socket.addEventListener('message', ({ data }) => write(`data: ${data}\n\n`));
  write(': open\n\n');
  return new Response(readable, { headers: { 'Content-Type': 'text/event-stream' } });
}

/** A page of 50 messages, which D1 returns as one text. */
async function page(env, beforeSeq) {
  const row = await env.DB.prepare(PAGE).bind(beforeSeq, 50).first();
  return new Response(`{"messages":[${row.page ?? ''}]}`, { headers: { 'Content-Type': 'application/json' } });
}

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case '/text':
        return new Response(TEXT);
      case '/events':
        return events(env, url.searchParams.get('sessionId'));
      case '/page':
        return page(env, Number(url.searchParams.get('beforeSeq')));
      default:
        return object(env).fetch(request);
    }
  },
};

/** The Durable Object: minimal Engine.IO and Socket.IO for the official client, pending RPCs, and a journal. */
export class Floor {
  constructor(state, env) {
    this.state = state;
    this.journal = new Journal(env.DB);
    this.texts = new Map();
    this.pending = new Map();
    this.lastCall = 0;
  }

  async fetch(request) {
    const url = new URL(request.url);
    switch (url.pathname) {
      case '/object':
        return new Response(this.text(Number(url.searchParams.get('bytes') ?? 0)));
      case '/rpc':
        return new Response(await this.call(url.searchParams.get('path')));
      case '/messages':
        return this.post(await request.json());
      case '/sessions':
        return this.create(await request.json());
      case '/insert':
        return this.insert(Number(url.searchParams.get('rows')));
      case '/subscribe':
        return this.accept(`web:${url.searchParams.get('sessionId')}`);
      case '/socket.io/':
        return this.accept('cli');
      default:
        return new Response('not found', { status: 404 });
    }
  }

  /** A text of a given length, which is cached; 0: the short text. */
  text(bytes) {
    if (bytes === 0) return TEXT;
    if (!this.texts.has(bytes)) this.texts.set(bytes, 'x'.repeat(bytes));
    return this.texts.get(bytes);
  }

  accept(tag) {
    const [client, server] = Object.values(new WebSocketPair());
    this.state.acceptWebSocket(server, [tag]);
    if (tag === 'cli') server.send(open());
    return new Response(null, /** @type {ResponseInit} */ ({ status: 101, webSocket: client }));
  }

  /** Calls the first CLI and resolves to the first argument of its ack. */
  call(path) {
    const id = ++this.lastCall;
    const params = JSON.stringify({ cwd: '/', filePath: path });
    return new Promise((resolve) => {
      this.pending.set(id, resolve);
      this.state.getWebSockets('cli')[0].send(event(id, 'rpc-request', { method: 'floor:call', params }));
    });
  }

  /** A web client's message: committed, then sent to the CLI, then answered. */
  async post({ text, localId }) {
    const content = { role: 'user', content: { type: 'text', text }, meta: { sentFrom: 'web' } };
    const record = await this.journal.append(content, localId);
    const update = { id: record.id, seq: record.seq, body: { t: 'new-message', message: { localId, content } } };
    this.state.getWebSockets('cli')[0].send(event(null, 'update', update));
    return Response.json({ ok: true, message: record });
  }

  /** A new session: one committed row. */
  async create({ tag, metadata }) {
    const { id } = await this.journal.append(metadata, tag);
    return Response.json({ session: { id } });
  }

  /** Sends an event to the web clients of a session. */
  publish(sessionId, data) {
    const subscribers = this.state.getWebSockets(`web:${sessionId}`);
    if (subscribers.length === 0) return;
    const text = JSON.stringify(data);
    for (const subscriber of subscribers) subscriber.send(text);
  }

  /** Writes rows of 1 KB in one batch, to measure D1 without sockets. */
  async insert(rows) {
    const content = { text: 'x'.repeat(1000) };
    await Promise.all(Array.from({ length: rows }, () => this.journal.append(content, null)));
    return Response.json({ rows });
  }

  async webSocketMessage(socket, frame) {
    const packet = parse(frame);
    if (packet.kind === 'connect') return socket.send(connectReply());
    if (packet.kind === 'ack') {
      this.pending.get(packet.id)?.(packet.data[0]);
      this.pending.delete(packet.id);
      return;
    }
    if (packet.kind !== 'event') return;
    const [name, payload] = packet.data;
    if (name === 'message-delta') return this.publish(payload.sid, { type: 'message-delta', ...payload });
    if (name !== 'message') {
      if (packet.id !== null) socket.send(ack(packet.id, { ok: true }));
      return;
    }
    const { sid, message, localId } = payload;
    const record = await this.journal.append(message, localId);
    if (packet.id !== null) socket.send(ack(packet.id, { ok: true, id: record.id, seq: record.seq }));
    this.publish(sid, { type: 'message-received', message: { ...record, content: message } });
  }

  webSocketClose(socket, code) {
    // The codes 1005 and 1006 must not be sent (RFC 6455, 7.4.1).
    socket.close(code === 1005 || code === 1006 ? 1000 : code);
  }
}
