/** Messages of 1 KB as an agent sends them, and the check that every one of them arrived once and in order. */

const FILLER = 'the agent explains at some length what it changed and why '.repeat(16);

/** About 1 KB as JSON; `index` tells it apart. */
export function agentMessage(index) {
  const text = FILLER.slice(0, 860);
  return {
    role: 'agent',
    content: { type: 'output', data: { type: 'assistant', index, message: { content: [{ type: 'text', text }] } } },
  };
}

/** The index that `agentMessage` put in. */
export function indexOf(content) {
  return content.content.data.index;
}

/** A burst takes a second or two; acks that are not there after this never come. */
const PATIENCE = 30_000;

/**
 * Emits `count` messages at once and resolves with their acks, in the order they were sent, when the last has come.
 * Rejects when an ack says no, when the socket closes before, or when acks stay out.
 */
export function emitAll(socket, session, count) {
  return new Promise((resolve, reject) => {
    const acks = new Array(count);
    let missing = count;
    const lost = (reason) => reject(new Error(`the CLI's socket closed (${reason}) with ${missing} acks missing`));
    const timer = setTimeout(() => {
      const first = Array.from(acks).findIndex((ack) => ack === undefined);
      reject(new Error(`${missing} of ${count} acks are missing after ${PATIENCE / 1000} s, the first is message ${first}'s`));
    }, PATIENCE);
    socket.once('disconnect', lost);
    for (let index = 0; index < count; index += 1) {
      socket.emit('message', { sid: session.id, message: agentMessage(index), localId: `m-${index}` }, (ack) => {
        if (!ack?.ok) reject(new Error(`message ${index} was refused: ${JSON.stringify(ack)}`));
        acks[index] = ack;
        missing -= 1;
        if (missing > 0) return;
        socket.off('disconnect', lost);
        clearTimeout(timer);
        resolve(acks);
      });
    }
  });
}

/** What is wrong with what was read back (null: the side keeps no record to read), as sentences; none when all is well. */
export function faultsOf(messages, acks) {
  const faults = [];
  if (messages === null) return faults;
  if (messages.length !== acks.length) faults.push(`${acks.length} messages were acknowledged, ${messages.length} are there`);
  const gap = messages.findIndex(({ seq }, at) => seq !== at + 1);
  if (gap !== -1) faults.push(`seq is not gapless: ${messages[gap].seq} stands at place ${gap + 1}`);
  const astray = messages.findIndex(({ content }, at) => indexOf(content) !== at);
  if (astray !== -1) faults.push(`order is not kept: message ${indexOf(messages[astray].content)} stands at place ${astray + 1}`);
  const wrong = messages.findIndex(({ id }, at) => id !== acks[at]?.id);
  if (wrong !== -1) faults.push(`the ack of message ${wrong} names another id than the stored one`);
  return faults;
}
