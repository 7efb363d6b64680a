/** Live text: sends what the agent is writing to web clients, before the message is complete and stored. */

/** Interval of sending: the text appears word by word, in few events. */
const INTERVAL_MS = 100;

/** The longest piece, in characters: the hub accepts 64 KB. */
const MAX_CHARS = 16_000;

export class LiveText {
  #timer = null;
  #id = '';
  /** How much of the message was sent. */
  #length = 0;

  /** @param {(delta: {id: string, kind: string, text: string, offset: number}) => void} send */
  constructor(send) {
    this.send = send;
  }

  /** @param {{takeDeltas: () => {id: string, kind: string, text: string}[]}} translator of the turn */
  start(translator) {
    this.stop();
    this.#timer = setInterval(() => translator.takeDeltas().forEach((delta) => this.#sendPieces(delta)), INTERVAL_MS);
  }

  stop() {
    clearInterval(this.#timer);
  }

  #sendPieces({ id, kind, text }) {
    if (id !== this.#id) [this.#id, this.#length] = [id, 0];
    for (let rest = text; rest !== ''; ) {
      // Half of a surrogate pair is not valid text.
      const end = /[\uD800-\uDBFF]/.test(rest[MAX_CHARS - 1] ?? '') ? MAX_CHARS - 1 : MAX_CHARS;
      const piece = rest.slice(0, end);
      this.send({ id, kind, text: piece, offset: this.#length });
      this.#length += piece.length;
      rest = rest.slice(end);
    }
  }
}
