/** A session with a CLI and web clients: measures how long each message takes to its ack, and to each web client. */

import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../scripts/lib/await.mjs';
import { repeat } from './measure.mjs';
import { agentMessage, messageIndex } from './messages.mjs';
import { subscribe } from './subscriber.mjs';

const WORDS = 'which is what the test shows, ';
/** The number of deltas after which a new message begins. */
const DELTAS_PER_MESSAGE = 100;

/**
 * Opens a session with a CLI and `clients` web clients, which get the events of the session. Reports an event that is lost or out of order.
 * All samples are in milliseconds.
 * @param {any} server
 * @param {string} tag
 * @param {{clients?: number, open?: typeof subscribe, reportProblem: (text: string) => void}} options `open`: opens an event stream
 */
export async function openLiveSession(server, tag, { clients = 1, open = subscribe, reportProblem }) {
  const session = await server.openSession(tag);
  const socket = await server.connectCli(session);
  const [messageTimes, deltaTimes] = [[], []];
  /** The numbers of messages and of deltas that each web client has received. */
  const received = Array.from({ length: clients }, () => ({ messages: 0, deltas: 0 }));
  const samples = { events: [], acks: [], deltas: [] };
  const acks = [];
  let ackCount = 0;
  const expect = (client, kind, index) => {
    if (index !== received[client][kind])
      reportProblem(`${tag}: web client ${client} got ${index} of the ${kind} instead of ${received[client][kind]}`);
    received[client][kind] = index + 1;
  };
  const listenerOf = (client) => (event, at) => {
    if (event.type === 'message-received') {
      const index = messageIndex(event.message.content);
      expect(client, 'messages', index);
      samples.events.push(at - messageTimes[index]);
    } else if (event.type === 'message-delta') {
      const index = Number(event.id) * DELTAS_PER_MESSAGE + event.offset / WORDS.length;
      expect(client, 'deltas', index);
      samples.deltas.push(at - deltaTimes[index]);
    }
  };
  const closers = await Promise.all(
    received.map((_, client) => open(server.newConnection(), server.paths(session).events, listenerOf(client))),
  );
  return {
    session,
    socket,
    samples,
    acks,
    send() {
      const index = messageTimes.push(performance.now()) - 1;
      socket.emit('message', { sid: session.id, message: agentMessage(index), localId: `m-${index}` }, (ack) => {
        if (!ack?.ok) reportProblem(`${tag}: message ${index} was refused: ${JSON.stringify(ack)}`);
        acks[index] = ack;
        ackCount += 1;
        samples.acks.push(performance.now() - messageTimes[index]);
      });
    },
    sendDelta() {
      const index = deltaTimes.push(performance.now()) - 1;
      const [id, position] = [Math.floor(index / DELTAS_PER_MESSAGE), index % DELTAS_PER_MESSAGE];
      socket.emit('message-delta', { sid: session.id, id: String(id), text: WORDS, offset: position * WORDS.length });
    },
    hasAllArrived: () =>
      ackCount === messageTimes.length &&
      received.every(({ messages, deltas }) => messages === messageTimes.length && deltas === deltaTimes.length),
    close() {
      for (const close of closers) close();
      socket.close();
    },
  };
}

/**
 * Sends messages at a constant rate. The sessions take turns. Waits until all messages have arrived. Resolves to the number of messages, and
 * to the samples of all sessions.
 * @param {Awaited<ReturnType<typeof openLiveSession>>[]} sessions
 */
export async function sendSteadily(sessions, perSecond, seconds) {
  for (const { samples } of sessions) for (const kind of Object.values(samples)) kind.length = 0;
  let count = 0;
  const stop = repeat(perSecond, (n) => {
    sessions[n % sessions.length].send();
    count += 1;
  });
  await sleep(seconds * 1000);
  stop();
  await eventually(() => sessions.every(({ hasAllArrived }) => hasAllArrived()), 'the last message');
  const join = (kind) => sessions.flatMap(({ samples }) => samples[kind]);
  return { count, events: join('events'), acks: join('acks') };
}
