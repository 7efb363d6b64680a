/**
 * The answers to an agent's permission requests.
 *
 * The order of the options means nothing: some agents list a permanent approval first. Of the two approvals, `allow_once` is
 * always chosen. `allow_always` may write a permanent rule into the settings of the user or of the project; an approval
 * for the session is remembered by the caller instead, and every later call is allowed once. `reject_always` is not
 * chosen for the same reason.
 *
 * @typedef {{status: 'approved' | 'denied' | 'canceled', decision?: string, reason?: string,
 *   answers?: Record<string, string[] | {answers: string[]}>}} Decision the user's decision; `canceled`: there is none
 * @typedef {{optionId: string, kind: string, name?: string}} Option
 */

import { asList, isText } from './values.mjs';

/**
 * Returns the option for a decision.
 * @param {unknown} options of the request
 * @param {'approved' | 'denied'} status
 * @returns {Option | undefined} undefined if the agent offers none for one call
 */
export function chooseOption(options, status) {
  const kind = status === 'approved' ? 'allow_once' : 'reject_once';
  return asList(options).find((option) => option?.kind === kind && isText(option.optionId));
}

/**
 * Returns the result of `session/request_permission`.
 * @param {{options?: unknown}} request
 * @param {Decision} decision
 */
export function permissionResult({ options }, { status, decision }) {
  const option = status === 'canceled' || decision === 'abort' ? undefined : chooseOption(options, status);
  return { outcome: option ? { outcome: 'selected', optionId: option.optionId } : { outcome: 'cancelled' } };
}
