/** The RPC method with which users change the messages that wait for the agent. */

/** Limit on the text of an edited message, and on all these texts together, because the agent state contains the texts. */
const MAX_TEXT_CHARS = 32_000;
const MAX_TEXTS_CHARS = 128_000;

const failure = (error, code) => ({ success: false, error, ...(code && { code }) });

const notQueued = () => failure('The message is not in the queue: the agent has received it, or it was canceled.', 'not_queued');

/** @param {import('./task-queue.mjs').TaskQueue} queue */
export function queueMethods(queue) {
  return {
    queue: async ({ action, seq, text, seqs }) => {
      if (action === 'order') return reorder(queue, seqs);
      if (!['edit', 'cancel', 'send'].includes(action)) return failure('"action" must be "edit", "cancel", "send" or "order".');
      const item = queue.find(seq);
      if (!item) return notQueued();
      if (action === 'edit') return edit(queue, item, text);
      if (action === 'cancel') queue.cancel(item);
      else if (queue.settings.mode === 'local') return failure('The terminal is in control. Take control, then send the message.');
      else await queue.sendNow(item);
      return { success: true };
    },
  };
}

function reorder(queue, seqs) {
  if (!Array.isArray(seqs) || seqs.length === 0) return failure('"seqs" must be a list with the numbers of queued messages.');
  if (!seqs.some((seq) => queue.find(seq))) return notQueued();
  queue.reorder([...new Set(seqs)]);
  return { success: true };
}

function edit(queue, item, text) {
  if (typeof text !== 'string' || (text.trim() === '' && item.attachments.length === 0)) return failure('The message must have a text.');
  if (text.length > MAX_TEXT_CHARS) return failure(`An edited message has at most ${MAX_TEXT_CHARS} characters, not ${text.length}.`);
  const { [item.seq]: _, ...others } = queue.state.queue.texts;
  const total = text.length + Object.values(others).join('').length;
  if (total > MAX_TEXTS_CHARS) return failure(`All edited messages that wait have at most ${MAX_TEXTS_CHARS} characters, not ${total}.`);
  queue.edit(item, text);
  return { success: true };
}
