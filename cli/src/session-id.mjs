/** The agent's ids of sessions. An id is also an argument of the agent's terminal program, so it does not begin with a hyphen. */

const SESSION_ID = /^[A-Za-z0-9_.][A-Za-z0-9_.:-]{0,199}$/;

export const isSessionId = (/** @type {unknown} */ value) => typeof value === 'string' && SESSION_ID.test(value);
