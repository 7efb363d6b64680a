/** Describes the tokens and the cost that an agent has used. The agent's CLI writes both into the session's metadata. */

import { isNumber, isObject, isString } from '../api/validate.ts';

const COUNT = new Intl.NumberFormat('en', { notation: 'compact' });

const PERCENT = new Intl.NumberFormat('en', { style: 'percent' });

/** Returns a text such as "12K of 200K tokens · $0.05". Returns an empty text if the usage is unknown. */
export function describeUsage(usage: unknown): string {
  return joinUsage(usage, (used, size) => `${COUNT.format(used)}${size > 0 ? ` of ${COUNT.format(size)}` : ''} tokens`);
}

/** Returns a short text such as "6% · $0.05". */
export function describeUsageBriefly(usage: unknown): string {
  return joinUsage(usage, (used, size) => (size > 0 ? PERCENT.format(used / size) : `${COUNT.format(used)} tokens`));
}

/** `describeTokens` receives the number of tokens in the context, and the limit; 0 for an unknown limit. */
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
