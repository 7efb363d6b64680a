/** Why an agent does not open a session that it had. Agents have no common codes for the reasons. */

/** The code of "resource not found". */
const NOT_FOUND = -32002;

const UNKNOWN =
  /\b(session|conversation|thread|rollout|resource)\b.*\bnot (be )?found\b|\bno (previous |such )?(sessions?|conversation|rollout|thread)\b|\b(unknown|invalid) session\b|\bsession\b.*\b(unknown|does not exist)\b/i;

const IN_USE =
  /\bactive writer\b|\b(in use|locked|open(ed)?) (by|in) (another|a different)\b|\b(session|conversation|thread)\b.*\b(in use|locked)\b/i;

const textOf = (/** @type {Error & {data?: unknown}} */ { message, data }) =>
  `${message} ${data === undefined ? '' : JSON.stringify(data)}`;

/** Whether the agent does not have the session. @param {Error & {code?: number, data?: unknown}} error */
export const isUnknownSession = (error) => !isInUse(error) && (error.code === NOT_FOUND || UNKNOWN.test(textOf(error)));

/** Whether another program uses the session now. @param {Error & {data?: unknown}} error */
export const isInUse = (error) => IN_USE.test(textOf(error));
