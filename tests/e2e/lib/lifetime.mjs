/** The lifetime of a whole suite: what helpers take in place of one test's context when several tests share a thing. */
export class Lifetime {
  #steps = [];

  /** Notes what is to be done at the end; the last noted is done first. @param {() => unknown} step */
  after(step) {
    this.#steps.unshift(step);
  }

  async end() {
    for (const step of this.#steps) await step();
  }
}
