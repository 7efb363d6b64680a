/** A fake body of a request. */

/**
 * Creates a request whose body is the chunks of an iterator. `reads` has the sizes of its reads.
 * @param {{next: () => any, return?: () => any}} chunks `return` is called when the reader is canceled
 * @returns {any}
 */
export function requestOf(chunks) {
  const reads = [];
  let rest = new Uint8Array(0);
  let received = 0;
  const readAtLeast = async (minBytes, view) => {
    reads.push(view.length);
    while (rest.length < minBytes) {
      const { value, done } = await chunks.next();
      if (done) break;
      rest = Buffer.concat([rest, value]);
    }
    // A real reader also detaches the buffer of the caller.
    const { byteOffset, length } = view;
    const value = new Uint8Array(view.buffer.transfer(), byteOffset, Math.min(rest.length, length));
    value.set(rest.subarray(0, value.length));
    rest = rest.subarray(value.length);
    received += value.length;
    return { value, done: value.length === 0 };
  };
  const reader = { readAtLeast, releaseLock: () => {}, cancel: async () => chunks.return?.() };
  return { body: { getReader: () => reader }, headers: new Headers(), reads, received: () => received };
}
