/** Globals of the runtime that browsers do not have. */

declare class IdentityTransformStream extends TransformStream<Uint8Array, Uint8Array> {}
