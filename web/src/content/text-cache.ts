/** A cache of values that are made from texts, such as rendered markdown: a row is mounted again whenever it comes into view. */

/** Limit on the characters of the keys and values of a cache. */
const MAX_CHARS = 1_000_000;

/** Keeps the values that were used last. */
export class TextCache {
  /** In the order of the last use. */
  #values = new Map<string, string>();
  #chars = 0;

  /** Returns the value of a text, and makes the value if it is not cached. */
  get(text: string, make: () => string): string {
    const cached = this.#values.get(text);
    const value = cached ?? make();
    if (cached !== undefined) this.#values.delete(text);
    else this.#chars += text.length + value.length;
    this.#values.set(text, value);
    for (const [oldest, { length }] of this.#values) {
      if (this.#chars <= MAX_CHARS) break;
      this.#values.delete(oldest);
      this.#chars -= oldest.length + length;
    }
    return value;
  }
}
