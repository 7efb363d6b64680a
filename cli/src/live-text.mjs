/** Live text: sends the text that the agent is writing to web clients, at an interval, before the message is stored. */

/** Short enough that the text appears word by word, and long enough for few events. */
const INTERVAL_MS = 100;

export class LiveText {
  #timer = null;
  #holdCount = 0;

  /** @param {(delta: {id: string, kind: string, text: string}) => void} send */
  constructor(send) {
    this.send = send;
  }

  /** @param {{takeDeltas: () => {id: string, kind: string, text: string}[]}} translator of the turn */
  start(translator) {
    this.stop();
    this.#timer = setInterval(() => this.#holdCount === 0 && translator.takeDeltas().forEach(this.send), INTERVAL_MS);
  }

  stop() {
    clearInterval(this.#timer);
  }

  /** Pauses until a promise is settled. */
  async hold(promise) {
    this.#holdCount += 1;
    await promise.catch(() => {});
    this.#holdCount -= 1;
  }
}
