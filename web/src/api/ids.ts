/** Ids made here. */

/**
 * A random id of 128 bits. `crypto.randomUUID` is not there on a page that came over plain HTTP, as from a hub in the
 * local network.
 */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
