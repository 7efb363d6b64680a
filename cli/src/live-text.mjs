/** Live text: reads, at an interval, the text that the agent is writing, and sends it to web clients before the message is stored. */

/** The interval is short enough that the text appears word by word, and long enough for few events. */
const INTERVAL_MS = 100;

export class LiveTextReader {
  #timer = null;
  #pauseCount = 0;

  /** @param {(delta: {id: string, kind: string, text: string}) => void} send */
  constructor(send) {
    this.send = send;
  }

  /** @param {{takeDeltas: () => {id: string, kind: string, text: string}[]}} translator of the turn */
  start(translator) {
    this.stop();
    this.#timer = setInterval(() => this.#pauseCount === 0 && translator.takeDeltas().forEach(this.send), INTERVAL_MS);
  }

  stop() {
    clearInterval(this.#timer);
  }

  /** Pauses until a promise is settled. */
  async pauseUntil(promise) {
    this.#pauseCount += 1;
    await promise.catch(() => {});
    this.#pauseCount -= 1;
  }
}
