/** Finds the first message of a history that fulfills a condition, by bisection. */

interface Position {
  seq: number;
  createdAt: number;
}

/**
 * Returns the seq of the first message that fulfills a condition, or null. All later messages must fulfill the condition, too.
 * @param newest the seq of the newest message; 0 without messages
 * @param messageAfter returns the first message after a seq
 */
export async function findFirst(
  newest: number,
  fulfills: (message: Position) => boolean,
  messageAfter: (seq: number) => Promise<Position | undefined>,
): Promise<number | null> {
  let [first, last] = [0, newest];
  let found: number | null = null;
  while (first < last) {
    const middle = Math.floor((first + last) / 2);
    const message = await messageAfter(middle);
    if (message && !fulfills(message)) first = Math.max(message.seq, middle + 1);
    else {
      last = middle;
      if (message) found = message.seq;
    }
  }
  return found;
}
