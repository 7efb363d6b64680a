/** Ids that the console generates. */

/** Returns a random 128-bit id in hex. `crypto.randomUUID` needs HTTPS, which a hub in the local network may not have. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
