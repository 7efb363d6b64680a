/** Collects the memories of the wasm instances of an isolate. Must be imported before the modules that create instances. */

/** @type {WebAssembly.Memory[]} */
export const memories = [];

const Instance = WebAssembly.Instance;

WebAssembly.Instance = class extends Instance {
  constructor(...args) {
    super(...args);
    memories.push(this.exports.memory);
  }
};
