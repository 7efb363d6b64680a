/** Live text: sends the text that an agent is writing to web clients, before the message is stored. */

/** The longest piece, in characters. The hub accepts 64 KB. */
const MAX_CHARS = 16_000;

export class LiveText {
  /** The message that is being written. @type {{id: string, kind?: string, text: string} | null} */
  #current = null;

  /** @param {(delta: {id: string, kind?: string, text: string, offset: number}) => void} send */
  constructor(send) {
    this.send = send;
  }

  /**
   * Appends text to the message that is being written, and sends the text. `id`: the `localId` of the message once it is stored.
   * @param {{id: string, kind?: string, text: string}} delta
   */
  append({ id, kind, text }) {
    if (this.#current?.id !== id) this.#current = { id, kind, text: '' };
    const offset = this.#current.text.length;
    this.#current.text += text;
    this.#sendFrom(offset);
  }

  /** Sends the whole text so far again, because the hub may have restarted. To be called on every connection. */
  onConnected() {
    this.#sendFrom(0);
  }

  /** To be called when the hub has stored a message. */
  onStored(localId) {
    if (this.#current?.id === localId) this.#current = null;
  }

  #sendFrom(start) {
    if (!this.#current) return;
    const { text, ...message } = this.#current;
    for (let offset = start; offset < text.length; ) {
      const end = offset + MAX_CHARS;
      // Half of a surrogate pair is not valid text.
      const piece = text.slice(offset, /[\uD800-\uDBFF]/.test(text[end - 1] ?? '') ? end - 1 : end);
      this.send({ ...message, text: piece, offset });
      offset += piece.length;
    }
  }
}
