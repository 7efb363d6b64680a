/** Reads what the agent is writing at an interval, and sends it to web clients before the message is complete and stored. */

/** Interval of sending: the text appears word by word, in few events. */
const INTERVAL_MS = 100;

export class LiveText {
  #timer = null;
  #holds = 0;

  /** @param {(delta: {id: string, kind: string, text: string}) => void} send */
  constructor(send) {
    this.send = send;
  }

  /** @param {{takeDeltas: () => {id: string, kind: string, text: string}[]}} translator of the turn */
  start(translator) {
    this.stop();
    this.#timer = setInterval(() => this.#holds === 0 && translator.takeDeltas().forEach(this.send), INTERVAL_MS);
  }

  stop() {
    clearInterval(this.#timer);
  }

  /** Sends nothing until a promise is settled. */
  async hold(promise) {
    this.#holds += 1;
    await promise.catch(() => {});
    this.#holds -= 1;
  }
}
