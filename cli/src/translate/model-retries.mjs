/**
 * An agent's failed requests to its model, which it repeats. The Agent Client Protocol has no message for them, so the bridge handles each
 * report of an agent as an update `model_retry`. Pure: no I/O and no timers.
 *
 * @typedef {{sessionUpdate: 'model_retry', attempt?: number, maxAttempts?: number, status?: number | null, reason?: string}} ModelRetry
 *   `attempt`: the number of failed requests, counted by the translator if the agent does not report it; `maxAttempts`: undefined if the
 *   agent does not report it; `status`: of the HTTP response, null without one; `reason`: the provider's words, of an agent that does not
 *   report the status
 */

import { asObject } from './values.mjs';

/** The first repetition is not reported if its delay is shorter: most of these requests succeed, such as that after an expired sign-in. */
const MIN_DELAY_MS = 2000;

/**
 * The messages of Claude Code itself that its adapter passes on in notifications `_claude/sdkMessage`.
 * @type {{type: string, subtype: string}[]}
 */
export const RETRY_MESSAGES = [{ type: 'system', subtype: 'api_retry' }];

/** @param {any} message of Claude Code @returns {ModelRetry | null} null if the message need not be reported */
export function toModelRetry(message) {
  const { subtype, attempt, max_retries: maxAttempts, retry_delay_ms: delayMs, error_status: status = null } = asObject(message);
  if (subtype !== 'api_retry') return null;
  const isBrief = attempt === 1 && maxAttempts > 1 && delayMs < MIN_DELAY_MS;
  return isBrief ? null : { sessionUpdate: 'model_retry', attempt, maxAttempts, status };
}

/** Codex reports each failed request in an update of the session. @param {any} update @returns {ModelRetry | null} */
export function toCodexRetry(update) {
  const { message, codexErrorInfo, willRetry } = asObject(update?._meta?.codex?.error);
  const [, attempt, maxAttempts] = /(\d+)\/(\d+)$/.exec(message) ?? [];
  if (willRetry !== true || attempt === undefined) return null;
  const [cause] = Object.values(asObject(codexErrorInfo));
  const { httpStatusCode: status = null } = asObject(cause);
  return { sessionUpdate: 'model_retry', attempt: Number(attempt), maxAttempts: Number(maxAttempts), status };
}

/** Agents end the turn after a failed request with another status. */
const toRetry = (status) => (status === 429 || status >= 500 ? { sessionUpdate: /** @type {const} */ ('model_retry'), status } : null);

/** Reads a line of the debug log of Gemini CLI. @param {string} line @returns {ModelRetry | null} */
export function readGeminiLine(line) {
  const [, count, problem] = /^\[\S+\] \[WARN\] Attempt (\d+) failed(.*)$/.exec(line) ?? [];
  if (count === undefined || problem.endsWith('. Max attempts reached')) return null;
  const attempt = Number(count);
  // The provider's words may continue in the next lines.
  const [, reason] = /^: (.+?)(\. Retrying after \d+ms\.\.\.)?$/.exec(problem) ?? [];
  if (reason !== undefined) return { sessionUpdate: 'model_retry', attempt, reason };
  const [, status] = /^ with (?:status )?(\d{3})\b/.exec(problem) ?? [];
  return { sessionUpdate: 'model_retry', attempt, status: status === undefined ? null : Number(status) };
}

/** Reads a line of the record in which Qwen Code stores a session. @param {string} line @returns {ModelRetry | null} */
export function readQwenLine(line) {
  if (!line.includes('"qwen-code.api_error"')) return null;
  const { subtype, systemPayload } = asObject(parse(line));
  return subtype === 'ui_telemetry' ? toRetry(systemPayload?.uiEvent?.status_code) : null;
}

/** Reads a line of the log of Copilot CLI. @param {string} line @returns {ModelRetry | null} */
export function readCopilotLine(line) {
  const [, json] = / Model provider request failed (\{.*)$/.exec(line) ?? [];
  return json === undefined ? null : toRetry(asObject(parse(json)).http_status);
}

function parse(json) {
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}

/**
 * Says why the requests fail, and what the user can do.
 * @param {{title: string, entry?: {signIn: string}}} launch
 * @param {ModelRetry} retry
 */
export function describeRetries({ title, entry }, { maxAttempts, status, reason }) {
  const repetition = `${title} repeats its request${maxAttempts === undefined ? '' : `, up to ${maxAttempts} times`}.`;
  const waitAdvice = 'Wait, or stop the turn and choose another model.';
  if (reason !== undefined) return `The model answers: ${reason}\n${repetition} ${waitAdvice}`;
  if (status === null) return `The model cannot be reached. ${repetition} Check the network connection of its computer.`;
  if (status === 401 || status === 403) {
    const advice = `Stop the turn, and check the key or the sign-in on its computer. ${entry?.signIn ?? ''}`.trim();
    return `The model's provider refuses the key or the sign-in (status ${status}). ${advice}`;
  }
  const problem = status === 429 ? 'limits the requests' : 'has a fault or is overloaded';
  return `The model's provider ${problem} (status ${status}). ${repetition} ${waitAdvice}`;
}

/** The activity of a session whose agent repeats a request. @param {ModelRetry} retry */
export const retryActivity = ({ attempt, maxAttempts, status }) =>
  `request to the model failed${status ? ` with status ${status}` : ''}, attempt ${attempt}${maxAttempts === undefined ? '' : ` of ${maxAttempts}`}`;
