/** Compares the protocol version of this kit with the protocol version of the hub. */

/** The `protocolVersion` of `GET /health` for which this kit was written. */
export const PROTOCOL_VERSION = 1;

/**
 * Returns a warning for the user if the hub has another protocol version. The program still uses this hub, because two versions differ
 * only in some parts of the protocol.
 * @param {number | undefined} hubVersion
 * @returns {string | undefined} undefined if the versions are equal, or the hub reports no version
 */
export function describeMismatch(hubVersion) {
  if (hubVersion === undefined || hubVersion === PROTOCOL_VERSION) return undefined;
  const [relation, outdated] = hubVersion > PROTOCOL_VERSION ? ['newer', 'this program'] : ['older', 'the hub'];
  return (
    `The hub is ${relation} than this program: it speaks version ${hubVersion} of the protocol, not ${PROTOCOL_VERSION}.` +
    ` Some functions may not work; update ${outdated}.`
  );
}
