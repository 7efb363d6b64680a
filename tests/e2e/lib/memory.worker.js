/** The memories of the wasm instances of an isolate. Has to be imported before what makes them. */

/** @type {WebAssembly.Memory[]} */
export const memories = [];

const Instance = WebAssembly.Instance;

WebAssembly.Instance = class extends Instance {
  constructor(...args) {
    super(...args);
    memories.push(this.exports.memory);
  }
};
