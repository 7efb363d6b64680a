/** Messages of 1 KB, as agents send them. Checks that each message is stored once and in order. */

import { withTimeout } from '../../scripts/lib/await.mjs';

const FILLER = 'the agent explains at some length what it changed and why '.repeat(16);

/** Returns a message of about 1 KB of JSON. */
export function agentMessage(index) {
  const text = FILLER.slice(0, 860);
  return {
    role: 'agent',
    content: { type: 'output', data: { type: 'assistant', index, message: { content: [{ type: 'text', text }] } } },
  };
}

/** Returns the index of a message from `agentMessage`. */
export function messageIndex(message) {
  return message.content.data.index;
}

/** Time limit for all acks of a flood. */
const ACKS_TIMEOUT_MS = 500_000;

/**
 * Sends messages with local ids: first `inFlight`, then one at each ack until `isDone(sentCount)`. Resolves to the acks, in the order of
 * the messages. Rejects if a message is refused or the socket closes.
 * @param {any} socket
 * @param {{id: string}} session
 * @param {{inFlight: number, isDone: (sentCount: number) => boolean, onAck?: (ackCount: number) => void}} options
 */
export function flood(socket, session, { inFlight, isDone, onAck = () => {} }) {
  const acks = [];
  let [sent, acked] = [0, 0];
  const sending = new Promise((resolve, reject) => {
    const onDisconnect = (reason) => reject(new Error(`the CLI's socket closed (${reason}) after ${acked} of ${sent} acks`));
    const next = () => {
      const index = sent;
      sent += 1;
      socket.emit('message', { sid: session.id, message: agentMessage(index), localId: `m-${index}` }, (ack) => {
        if (!ack?.ok) reject(new Error(`message ${index} was refused: ${JSON.stringify(ack)}`));
        acks[index] = ack;
        acked += 1;
        onAck(acked);
        if (!isDone(sent)) return next();
        if (acked < sent) return;
        socket.off('disconnect', onDisconnect);
        resolve(acks);
      });
    };
    socket.once('disconnect', onDisconnect);
    while (sent < inFlight) next();
  });
  return withTimeout(sending, 'the acks of all messages', ACKS_TIMEOUT_MS);
}

/** Sends `count` messages at once. Resolves to their acks. */
export function emitAll(socket, session, count) {
  return flood(socket, session, { inFlight: count, isDone: () => true });
}

/**
 * Compares the stored messages of a session with their acks.
 * @param {object[] | null} messages null for the floor, which does not store messages by session
 * @returns {string[]} the differences
 */
export function findStorageErrors(messages, acks) {
  const errors = [];
  if (messages === null) return errors;
  if (messages.length !== acks.length) errors.push(`${acks.length} messages were acknowledged, ${messages.length} are stored`);
  const wrong = messages.findIndex(
    ({ seq, content, id }, index) => seq !== index + 1 || messageIndex(content) !== index || id !== acks[index]?.id,
  );
  if (wrong !== -1) {
    const { seq, content, id } = messages[wrong];
    errors.push(`message ${wrong} is stored with seq ${seq}, index ${messageIndex(content)} and id ${id}; its ack has ${acks[wrong]?.id}`);
  }
  return errors;
}
