/** The limits of the user's plan with the agent's provider. The agent's CLI writes them into the session's metadata. */

import { isNumber, isString, parseObjects } from '../api/validate.ts';

export interface PlanLimit {
  id: string;
  label: string;
  /** The used share of the limit, from 0 to 1. */
  used: number;
  /** When the limit is reset, in Unix milliseconds. */
  resetsAt?: number;
}

const LABELS: Record<string, string> = {
  five_hour: '5-hour limit',
  seven_day: 'Weekly limit',
  seven_day_opus: 'Weekly limit, Opus',
  seven_day_sonnet: 'Weekly limit, Sonnet',
  overage: 'Extra usage',
};

const isShare = (value: unknown) => isNumber(value) && value >= 0;
const isTime = (value: unknown) => isNumber(value) && value > 0 && value < 8.64e15;

/** Returns the limits that were not reset since the agent reported them. */
export const parseLimits = (limits: unknown, now = Date.now()): PlanLimit[] =>
  parseObjects<Omit<PlanLimit, 'label'>>(limits, { id: isString, used: isShare, resetsAt: isTime }, ['id', 'used'])
    .filter(({ resetsAt = Infinity }) => resetsAt > now)
    .map(({ id, used, resetsAt }) => ({
      id,
      label: (Object.hasOwn(LABELS, id) && LABELS[id]) || id.charAt(0).toUpperCase() + id.slice(1).replaceAll('_', ' '),
      used: Math.min(1, used),
      ...(resetsAt === undefined ? {} : { resetsAt }),
    }));
