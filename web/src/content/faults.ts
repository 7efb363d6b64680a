/** Texts for the faults in the status of a namespace. */

import type { Status } from '../api/types.ts';

export type Fault = Status['faults'][number];

/** The texts, by the event of the hub's log line. */
const TEXTS = new Map(
  Object.entries({
    'commit-failed': 'Changes could not be stored. Agents and browsers were told, and try again.',
    'database-stalled': 'The database did not answer. Changes had to wait.',
    'merge-refused': 'A resumed session was not joined with its earlier part: together they are too large.',
    'push-failed': 'A push service did not accept a notification.',
  }),
);

/** Describes a fault. A newer hub may have events that this page does not know. */
export function describeFault({ line }: Fault): string {
  return TEXTS.get(line.event) ?? `The hub reported “${line.event.replaceAll('-', ' ')}”.`;
}

/** Returns the log line of a fault as text. */
export const faultLine = ({ line }: Fault): string => JSON.stringify(line, null, 2);
