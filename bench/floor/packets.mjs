/** The Engine.IO 4 and Socket.IO 5 packets of the namespace `/cli` that the official client needs for the bench. */

const NAMESPACE = '/cli,';

/** The Engine.IO open packet. The ping interval is an hour, because the floor sends no pings. */
export function open() {
  return `0${JSON.stringify({
    sid: crypto.randomUUID(),
    upgrades: [],
    pingInterval: 3_600_000,
    pingTimeout: 20_000,
    maxPayload: 100_000_000,
  })}`;
}

export function connectReply() {
  return `40${NAMESPACE}${JSON.stringify({ sid: crypto.randomUUID() })}`;
}

/** An event packet. With an `id`, the packet requests an ack. */
export function event(id, name, payload) {
  return `42${NAMESPACE}${id ?? ''}${JSON.stringify([name, payload])}`;
}

export function ack(id, payload) {
  return `43${NAMESPACE}${id}${JSON.stringify([payload])}`;
}

/** Parses a text frame into `{kind: 'connect' | 'event' | 'ack' | 'other', id: number | null, data}`. */
export function parse(frame) {
  if (frame.startsWith(`40${NAMESPACE}`)) return { kind: 'connect' };
  const kind = frame.startsWith('42') ? 'event' : frame.startsWith('43') ? 'ack' : 'other';
  if (kind === 'other') return { kind };
  const start = frame.indexOf('[');
  const id = frame.slice(2 + NAMESPACE.length, start);
  return { kind, id: id === '' ? null : Number(id), data: JSON.parse(frame.slice(start)) };
}
