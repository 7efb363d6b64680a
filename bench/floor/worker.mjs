/**
 * The runtime's own floor: the shortest plain JavaScript that does what each row of the bench asks for, and nothing
 * else. No authentication, no routing, no checks: whatever the hub costs above these figures is the hub's own.
 */

import { Journal, PAGE } from './journal.mjs';
import { ack, connectReply, event, open, parse } from './packets.mjs';

const TEXT = 'the answer of a worker that does nothing else';

/** One object for all: a namespace of the hub is one object too. */
function object(env) {
  return env.FLOOR.get(env.FLOOR.idFromName('floor'));
}

/**
 * A server-sent event stream of the stateless worker, fed by a WebSocket to the object: the shape that lets the object
 * hibernate, so the floor pays for it too.
 */
async function events(env) {
  const answer = await object(env).fetch('http://floor/subscribe', { headers: { Upgrade: 'websocket' } });
  const socket = answer.webSocket;
  const { readable, writable } = new IdentityTransformStream();
  const writer = writable.getWriter();
  const encoder = new TextEncoder();
  const write = (text) => writer.write(encoder.encode(text)).catch(() => socket.close());
  socket.accept();
  socket.addEventListener('message', ({ data }) => write(`data: ${data}\n\n`));
  write(': open\n\n');
  return new Response(readable, { headers: { 'Content-Type': 'text/event-stream' } });
}

/** A page of 50 messages: one statement, one text out of D1. */
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
        return events(env);
      case '/page':
        return page(env, Number(url.searchParams.get('beforeSeq')));
      default:
        return object(env).fetch(request);
    }
  },
};

/** The object: Engine.IO and Socket.IO just far enough for the official client, one pending map, one journal. */
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
      case '/insert':
        return this.insert(Number(url.searchParams.get('rows')));
      case '/subscribe':
        return this.accept('web');
      case '/socket.io/':
        return this.accept('cli');
      default:
        return new Response('not found', { status: 404 });
    }
  }

  /** A fixed text of so many bytes (0: the short one), made once. */
  text(bytes) {
    if (bytes === 0) return TEXT;
    if (!this.texts.has(bytes)) this.texts.set(bytes, 'x'.repeat(bytes));
    return this.texts.get(bytes);
  }

  accept(tag) {
    const [client, server] = Object.values(new WebSocketPair());
    this.state.acceptWebSocket(server, [tag]);
    if (tag === 'cli') server.send(open());
    return new Response(null, { status: 101, webSocket: client });
  }

  /** One RPC to the first CLI; its answer is the text of the ack's first argument. */
  call(path) {
    const id = ++this.lastCall;
    const params = JSON.stringify({ cwd: '/', filePath: path });
    return new Promise((resolve) => {
      this.pending.set(id, resolve);
      this.state.getWebSockets('cli')[0].send(event(id, 'rpc-request', { method: 'floor:call', params }));
    });
  }

  /** A web client's message: durable, then told to the CLI, then answered. */
  async post({ text, localId }) {
    const content = { role: 'user', content: { type: 'text', text }, meta: { sentFrom: 'web' } };
    const record = await this.journal.append(content, localId);
    const update = { id: record.id, seq: record.seq, body: { t: 'new-message', message: { localId, content } } };
    this.state.getWebSockets('cli')[0].send(event(null, 'update', update));
    return Response.json({ ok: true, message: record });
  }

  /** Rows of 1 KB into D1 as one bound JSON parameter: what a batch costs with no socket in front of it. */
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
    if (packet.kind !== 'event' || packet.data[0] !== 'message') return;
    const { message, localId } = packet.data[1];
    const record = await this.journal.append(message, localId);
    if (packet.id !== null) socket.send(ack(packet.id, { ok: true, id: record.id, seq: record.seq }));
    const subscribers = this.state.getWebSockets('web');
    if (subscribers.length === 0) return;
    const text = JSON.stringify({ type: 'message-received', message: { ...record, content: message } });
    for (const subscriber of subscribers) subscriber.send(text);
  }

  webSocketClose(socket, code) {
    // 1005 and 1006 may be received but not sent (RFC 6455, 7.4.1).
    socket.close(code === 1005 || code === 1006 ? 1000 : code);
  }
}
