/** Describes the tokens and the cost that an agent has used. The agent's CLI writes both into the session's metadata. */

import { isNumber, isObject, isString } from '../api/validate.ts';
import { once } from './once.ts';

const count = once(() => new Intl.NumberFormat('en', { notation: 'compact' }));

const percent = once(() => new Intl.NumberFormat('en', { style: 'percent' }));

/** Returns a text such as "12K of 200K tokens · $0.05". Returns an empty text if the usage is unknown. */
export function describeUsage(usage: unknown): string {
  return joinUsage(usage, (used, size) => `${count().format(used)}${size > 0 ? ` of ${count().format(size)}` : ''} tokens`);
}

/** Returns a short text such as "6%"; the cost if the tokens are unknown. */
export function describeUsageBriefly(usage: unknown): string {
  const share = contextShare(usage);
  if (share !== undefined) return percent().format(share);
  return describeUsage(usage).split(' · ', 1)[0] ?? '';
}

/** Returns the used share of the context, from 0 to 1; undefined if the limit is unknown. */
export function contextShare(usage: unknown): number | undefined {
  if (!isObject(usage)) return undefined;
  const { used, size } = usage;
  return isNumber(used) && isNumber(size) && size > 0 ? Math.min(1, Math.max(0, used / size)) : undefined;
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
    // `currency` is no currency code.
    return `${amount.toFixed(2)} ${currency}`;
  }
}
