/** The messages that wait for the agent, as the session's CLI publishes them (docs/PROTOCOL.md "The queue"). */

import { isObject } from '../api/validate.ts';

export interface Queue {
  /** The seqs of the messages, in the order in which they run. */
  seqs: number[];
  /** The texts of edited messages, by seq. */
  texts: Record<string, unknown>;
  /** Whether the agent takes a message during its turn. */
  steers: boolean;
}

/** Returns the queue; null if no message waits, or if the CLI publishes no `queue`: then users cannot change it. */
export function queueOf(agentState: unknown): Queue | null {
  if (!isObject(agentState) || !isObject(agentState.queue) || !Array.isArray(agentState.queuedMessages)) return null;
  const seqs = agentState.queuedMessages.filter((seq): seq is number => Number.isSafeInteger(seq));
  const { texts, steers } = agentState.queue;
  return seqs.length === 0 ? null : { seqs, texts: isObject(texts) ? texts : {}, steers: steers === true };
}

/** Moves an element of a list by some places, at most to the start or the end. */
export function moveBy<T>(list: readonly T[], element: T, places: number): T[] {
  const others = list.filter((other) => other !== element);
  const index = Math.min(Math.max(list.indexOf(element) + places, 0), others.length);
  return [...others.slice(0, index), element, ...others.slice(index)];
}
