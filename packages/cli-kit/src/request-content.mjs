/**
 * The full arguments of a permission request whose published arguments are shortened. A client reads the full arguments in parts. With
 * each part, the client receives a piece of a random text, the proof. An approval must contain the whole proof, so a client cannot
 * approve arguments that it has not loaded.
 */

import { randomBytes } from 'node:crypto';

/** The length of a part in characters. Encoded twice as JSON, a part has at most 2.4 MB. */
const PART_CHARS = 200_000;

const PROOF_BYTES = 8;

export class RequestContent {
  #parts = [];
  #proofs;

  /** @param {string} json the arguments as JSON */
  constructor(json) {
    for (let from = 0, to; from < json.length; from = to) {
      to = Math.min(from + PART_CHARS, json.length);
      // A part must not end within a surrogate pair, which is not valid alone.
      if (/[\uD800-\uDBFF]/.test(json[to - 1])) to += 1;
      this.#parts.push(json.slice(from, to));
    }
    this.#proofs = this.#parts.map(() => randomBytes(PROOF_BYTES).toString('hex'));
    this.size = { parts: this.#parts.length, bytes: Buffer.byteLength(json) };
  }

  /** Returns a part, for an RPC. @param {unknown} part from 0 */
  read(part) {
    const index = typeof part === 'number' && Number.isInteger(part) ? part : -1;
    const text = this.#parts[index];
    if (text === undefined) return { success: false, error: `\`part\` must be from 0 to ${this.#parts.length - 1}.` };
    return { success: true, text, parts: this.#parts.length, proof: this.#proofs[index] };
  }

  /** Returns why an approval is refused, or null. @param {any} proof `answers.proof` of the approval, unchecked */
  checkProof(proof) {
    const [given] = Array.isArray(proof?.answers ?? proof) ? (proof.answers ?? proof) : [];
    if (given === this.#proofs.join('')) return null;
    return `The request is shortened: ${this.size.bytes} bytes are to be approved. Load all of it first; a reload of the page may help.`;
  }
}
