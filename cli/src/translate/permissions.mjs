/**
 * The answers to an agent's permission requests.
 *
 * The order of the options has no meaning: some agents list a permanent approval first. The options by kind:
 * - `allow_once` is chosen for an approval. After an approval for the session, `Approvals` (approvals.mjs) chooses this option again for each
 *   later call, without asking the user.
 * - `allow_always` may write a permanent rule into the settings of the user or of the project. So this option is chosen only if the user has
 *   selected it by its name.
 * - `reject_once` is chosen for a denial.
 * - `reject_always` may write a permanent rule too, and is never chosen.
 *
 * @typedef {string[] | {answers: string[]}} Answer
 * @typedef {{status: 'approved' | 'denied' | 'canceled', decision?: string, reason?: string,
 *   answers?: Record<string, Answer>}} Decision the answer to a request. `status`: `canceled` if no user has decided. `decision`: the
 *   protocol's finer value, such as `abort` for a denial that also ends the turn
 * @typedef {{optionId: string, kind: string, name?: string}} Option
 * @typedef {{id: string, label: string, neverAsks?: boolean}} Choice an option that the user can choose by its own name
 */

import { asList, firstLine, isText } from './values.mjs';

const MAX_LABEL_CHARS = 200;

/** Matches options that approve a call and also select a mode in which the agent asks less. */
const CHOOSES_MODE = /auto|previous|bypass|yolo|accept/i;
const NEVER_ASKS = /bypass|yolo|full.?access/i;

const isApproval = (option) => (option?.kind === 'allow_once' || option?.kind === 'allow_always') && isText(option.optionId);
const textOf = ({ optionId, name }) => `${optionId} ${isText(name) ? name : ''}`;

/**
 * Returns the option that approves or denies this call alone.
 * @param {unknown} options of the request
 * @param {'approved' | 'denied'} status
 * @returns {Option | undefined} undefined if the agent offers no such option
 */
export function onceOption(options, status) {
  const kind = status === 'approved' ? 'allow_once' : 'reject_once';
  const candidates = asList(options).filter((option) => option?.kind === kind && isText(option.optionId));
  return candidates.find((option) => !CHOOSES_MODE.test(textOf(option))) ?? candidates[0];
}

/**
 * Returns the agent's own options that are offered to the user.
 * @param {unknown} options of the request
 * @param {boolean} isPlan whether the request is for a plan: its options say how the agent continues
 * @returns {{choices?: Choice[], needsChoice?: true}} `needsChoice`: no option approves this call alone
 */
export function offeredChoices(options, isPlan) {
  const approval = onceOption(options, 'approved');
  const otherApprovals = asList(options).filter((option) => isApproval(option) && option !== approval);
  if (otherApprovals.length === 0 || (approval && !isPlan)) return {};
  const choices = otherApprovals.map((option) => ({
    id: option.optionId,
    label: firstLine(isText(option.name) ? option.name : option.optionId, MAX_LABEL_CHARS),
    ...(NEVER_ASKS.test(textOf(option)) && { neverAsks: true }),
  }));
  return { choices, ...(!approval && { needsChoice: true }) };
}

/**
 * Returns the option of an approval: the user's choice. If the user chose none, the option for this call alone.
 * @param {unknown} options of the request
 * @param {Decision} decision
 * @param {Choice[]} [choices] from `offeredChoices`
 */
export function approvedOption(options, { answers }, choices = []) {
  const given = answers?.choice;
  const [chosen] = asList(Array.isArray(given) ? given : given?.answers);
  const isOffered = choices.some(({ id }) => id === chosen);
  return isOffered ? asList(options).find((option) => option?.optionId === chosen) : onceOption(options, 'approved');
}

/**
 * Returns the result of `session/request_permission`.
 * @param {{options?: unknown}} request
 * @param {Decision} decision
 * @param {Choice[]} [choices] from `offeredChoices`
 */
export function permissionResult({ options }, decision, choices) {
  const { status } = decision;
  const isAnswered = status !== 'canceled' && decision.decision !== 'abort';
  const option = !isAnswered ? undefined : status === 'approved' ? approvedOption(options, decision, choices) : onceOption(options, status);
  return { outcome: option ? { outcome: 'selected', optionId: option.optionId } : { outcome: 'cancelled' } };
}
