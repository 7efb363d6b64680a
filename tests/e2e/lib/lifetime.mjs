/** The lifetime of a suite. For resources that several tests share, helpers take a `Lifetime` instead of a test's context. */
export class Lifetime {
  #steps = [];

  /** Adds a clean-up step. The steps run in reverse order. @param {() => unknown} step */
  after(step) {
    this.#steps.unshift(step);
  }

  async end() {
    for (const step of this.#steps) await step();
  }
}
