/** Describes what an agent's model has used, as its CLI wrote it into the session's metadata. */

import { isNumber, isObject, isString } from '../api/validate.ts';

const COUNT = new Intl.NumberFormat('en', { notation: 'compact' });

const PERCENT = new Intl.NumberFormat('en', { style: 'percent' });

/** Returns a text such as "12K of 200K tokens · $0.05"; an empty one if nothing is known. */
export function describeUsage(usage: unknown): string {
  return joinUsage(usage, (used, size) => `${COUNT.format(used)}${size > 0 ? ` of ${COUNT.format(size)}` : ''} tokens`);
}

/** Returns a short text such as "6% · $0.05". */
export function describeUsageBriefly(usage: unknown): string {
  return joinUsage(usage, (used, size) => (size > 0 ? PERCENT.format(used / size) : `${COUNT.format(used)} tokens`));
}

/** `describeTokens` gets the tokens in the context and their limit, 0 if it is unknown. */
function joinUsage(usage: unknown, describeTokens: (used: number, size: number) => string): string {
  if (!isObject(usage)) return '';
  const { used, size, cost } = usage;
  const tokens = isNumber(used) ? describeTokens(used, isNumber(size) ? size : 0) : '';
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
