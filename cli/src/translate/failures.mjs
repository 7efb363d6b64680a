/** The errors of a model that the adapter of Codex reports in `_meta`, of an update or of the reply to a prompt. */

import { isText } from './values.mjs';

/**
 * @param {any} value an update, or a reply
 * @returns {{id: unknown, text: string, isWarning: boolean} | null} `id`: the same for all attempts of one turn; `isWarning`: whether the
 *   agent tries again
 */
export function failureOf(value) {
  const { id, title, severity } = value?._meta?.jetbrains?.air?.sessionFailure ?? {};
  return isText(title) ? { id, text: messageIn(title), isWarning: severity === 'warning' } : null;
}

/** Returns the message of an error that a provider has sent as JSON. */
function messageIn(title) {
  try {
    const { message } = JSON.parse(title).error;
    return isText(message) ? message : title;
  } catch {
    return title;
  }
}
