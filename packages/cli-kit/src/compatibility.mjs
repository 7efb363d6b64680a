/** Whether this kit and the hub speak the same version of the protocol. */

/** The `protocolVersion` of `GET /health` for which this kit was written. */
export const PROTOCOL_VERSION = 1;

/**
 * Returns what to tell the user when the hub is older or newer. The connection is used all the same: versions differ in parts of the
 * protocol only.
 * @param {number | undefined} hubVersion
 * @returns {string | undefined}
 */
export function describeMismatch(hubVersion) {
  if (hubVersion === undefined || hubVersion === PROTOCOL_VERSION) return undefined;
  const [relation, outdated] = hubVersion > PROTOCOL_VERSION ? ['newer', 'this program'] : ['older', 'the hub'];
  return (
    `The hub is ${relation} than this program: it speaks version ${hubVersion} of the protocol, not ${PROTOCOL_VERSION}.` +
    ` Some functions may not work; update ${outdated}.`
  );
}
