/** The sentences that the bridge (this program, between an agent and the hub) adds to the conversation. */

import { AgentEndedError } from './acp-process.mjs';
import { describeError } from './acp-session.mjs';
import { asObject, firstLine, isText } from './translate/values.mjs';

/** @typedef {{title: string}} Agent */

const MAX_CALL_CHARS = 200;

/** Why a turn failed, if the agent itself has just said the error. */
export const FAILED_AS_SAID = 'The turn ended with this error.';

export const INTERRUPTED = 'The bridge to the agent was restarted during this turn. Its prompt is not sent again.';

/** Why a turn failed. @param {Agent} agent @param {Error} error */
export function failedTurn({ title }, error) {
  if (!(error instanceof AgentEndedError)) return `Error: ${describeError(error)}`;
  return `Error: ${title} ended unexpectedly (${error.message}). Your message may have been handled in part, and is not sent again. The next message starts ${title} again.`;
}

/**
 * @param {Agent} agent
 * @param {number} ms how long the agent has been silent
 * @param {string} [line] its last line on standard error in this turn
 */
export function silence({ title }, ms, line) {
  const output = line ? ` The last line of its error output: ${line}` : '';
  return `${title} has sent nothing for ${Math.round(ms / 1000)} s. It may be waiting for its model, or try again after an error of the model: check the network connection and the sign-in or key of the agent on its computer. Stop ends the turn.${output}`;
}

/** @param {Agent} agent @param {number} ms how long the agent has been silent @param {import('./translate/tool-calls.mjs').Call} call that runs */
export function silentCall({ title }, ms, { name, input }) {
  const call = firstLine(isText(asObject(input).command) ? input.command : name, MAX_CALL_CHARS);
  return `${title} has sent nothing for ${Math.round(ms / 60_000)} min, while this runs: ${call}\nStop ends it together with the turn.`;
}

/** @param {Agent} agent @param {string} command its name */
export const unknownCommand = ({ title }, command) =>
  `${title} has not answered, and lists no command /${command}. Type / to see its commands.`;

/** @param {Agent} agent */
export const download = ({ title }) =>
  `npm is still downloading ${title}. If the download does not end, check the network connection of its computer.`;

/** @param {Agent} agent @param {string} sessionId the agent's id @param {string} reason */
export const lostSession = ({ title }, sessionId, reason) =>
  `${title} cannot resume its session ${sessionId}: ${reason}. It has started a new session, and does not remember the conversation above.`;

/** @param {Agent} agent @param {string} reason */
export const sessionInUse = ({ title }, reason) =>
  `${title} cannot open its session yet, because another program uses it: ${reason}. Close it there. The bridge tries again until then.`;

/** @param {Agent} agent @param {number} ms */
export const waitForMinute = ({ title }, ms) =>
  `${title} resumes this session in ${Math.ceil(ms / 1000)} s: it would lose a session that began in this minute.`;
