/** Messages of 1 KB, as agents send them. Checks that each message is stored once and in order. */

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

/** Time limit for the acks of a burst. A burst usually takes one or two seconds. */
const ACKS_TIMEOUT_MS = 30_000;

/**
 * Emits `count` messages at once. Resolves to the acks, in the order of the messages. Rejects if a message is refused, the socket closes,
 * or an ack is missing at the time limit.
 */
export function emitAll(socket, session, count) {
  return new Promise((resolve, reject) => {
    const acks = new Array(count);
    let missing = count;
    const onDisconnect = (reason) => reject(new Error(`the CLI's socket closed (${reason}) with ${missing} acks missing`));
    const timer = setTimeout(() => {
      const first = Array.from(acks).indexOf(undefined);
      reject(new Error(`${missing} of ${count} acks are missing after ${ACKS_TIMEOUT_MS / 1000} s, the first for message ${first}`));
    }, ACKS_TIMEOUT_MS);
    socket.once('disconnect', onDisconnect);
    for (let index = 0; index < count; index += 1) {
      socket.emit('message', { sid: session.id, message: agentMessage(index), localId: `m-${index}` }, (ack) => {
        if (!ack?.ok) reject(new Error(`message ${index} was refused: ${JSON.stringify(ack)}`));
        acks[index] = ack;
        missing -= 1;
        if (missing > 0) return;
        socket.off('disconnect', onDisconnect);
        clearTimeout(timer);
        resolve(acks);
      });
    }
  });
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
  const gap = messages.findIndex(({ seq }, index) => seq !== index + 1);
  if (gap !== -1) errors.push(`seqs have a gap: message ${gap + 1} has seq ${messages[gap].seq}`);
  const misplaced = messages.findIndex(({ content }, index) => messageIndex(content) !== index);
  if (misplaced !== -1)
    errors.push(`messages are out of order: message ${messageIndex(messages[misplaced].content)} is at index ${misplaced}`);
  const wrongId = messages.findIndex(({ id }, index) => id !== acks[index]?.id);
  if (wrongId !== -1) errors.push(`the ack of message ${wrongId} has another id than the stored message`);
  return errors;
}
