/** Describes what an agent's model has used, as its CLI wrote it into the session's metadata. */

import { isNumber, isObject, isString } from '../api/validate.ts';

const COUNT = new Intl.NumberFormat('en', { notation: 'compact' });

/** Returns a text such as "12K of 200K tokens · $0.05"; an empty one if nothing is known. */
export function describeUsage(usage: unknown): string {
  if (!isObject(usage)) return '';
  const { used, size, cost } = usage;
  const limit = isNumber(size) && size > 0 ? ` of ${COUNT.format(size)}` : '';
  const tokens = isNumber(used) ? `${COUNT.format(used)}${limit} tokens` : '';
  return [tokens, isObject(cost) ? describeCost(cost) : ''].filter(Boolean).join(' · ');
}

function describeCost({ amount, currency }: Record<string, unknown>): string {
  if (!isNumber(amount) || !isString(currency)) return '';
  try {
    return new Intl.NumberFormat('en', { style: 'currency', currency }).format(amount);
  } catch {
    // Not a currency code.
    return `${amount.toFixed(2)} ${currency}`;
  }
}
