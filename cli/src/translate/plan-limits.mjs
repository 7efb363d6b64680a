/** The limits of the user's plan, which Claude Code reports beside the usage of the context. */

import { asObject } from './values.mjs';

/** Further limits of a report are dropped. */
const MAX_LIMITS = 10;
const MAX_ID_CHARS = 40;

/**
 * Returns one limit for each period in `unifiedWindows`, and one for the period `rateLimitType` if it is not among them.
 * @param {unknown} report `{unifiedWindows: {[period]: {utilization, resetsAt}}, rateLimitType, utilization, resetsAt}`; times are in
 *   Unix seconds
 * @returns {import('./records.mjs').Limit[]}
 */
export function toPlanLimits(report) {
  const { unifiedWindows, rateLimitType, utilization, resetsAt } = asObject(report);
  const all = { [rateLimitType]: { utilization, resetsAt }, ...asObject(unifiedWindows) };
  return Object.entries(all)
    .filter(([id, window]) => /^[a-z_]+$/.test(id) && id.length <= MAX_ID_CHARS && isUsedFraction(window?.utilization))
    .slice(0, MAX_LIMITS)
    .map(([id, window]) => ({
      id,
      used: window.utilization,
      ...(Number.isSafeInteger(window.resetsAt) && window.resetsAt > 0 ? { resetsAt: window.resetsAt * 1000 } : {}),
    }));
}

/** Whether a value is the used fraction of a limit: 1 is the whole limit, and the user may have exceeded the limit up to 100 times. */
const isUsedFraction = (value) => typeof value === 'number' && value >= 0 && value <= 100;
