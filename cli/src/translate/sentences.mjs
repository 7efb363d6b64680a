/** The sentences with which turns and calls end. */

import { isText } from './values.mjs';

const STOP_REASONS = {
  max_tokens: 'The answer was cut off at the limit of output tokens.',
  max_turn_requests: 'The agent stopped at its limit of requests to the model in one turn.',
  refusal: 'The model refused to continue.',
};

/** Says why a turn ended before the answer was complete; null if it was. @param {unknown} stopReason */
export function describeStop(stopReason) {
  if (stopReason === 'end_turn' || !isText(stopReason)) return null;
  return Object.hasOwn(STOP_REASONS, stopReason) ? STOP_REASONS[stopReason] : `The turn ended: ${stopReason}.`;
}

/** The output of a call that was denied or canceled. @param {{status: string, decision?: string, reason?: string}} decision */
export function describeRefusal({ status, decision, reason }) {
  const refusal = status === 'canceled' ? 'Canceled.' : decision === 'abort' ? 'Denied and aborted.' : 'Denied.';
  return reason ? `${refusal}\nReason: ${reason}` : refusal;
}
