/** What became of an agent's request, in words. */

import type { CompletedRequest } from '../api/types.ts';
import { questionsOf, summarize } from './tools.ts';

/** How a request ended. */
export interface Decision {
  words: string;
  kind: 'approved' | 'denied' | 'canceled';
}

/** How a request ended. One without a status, which no agent should write, counts as never answered. */
export function decisionOf({ status, decision, arguments: input }: CompletedRequest): Decision {
  if (status === 'denied') return { kind: 'denied', words: decision === 'abort' ? 'Denied and stopped' : 'Denied' };
  if (status !== 'approved') return { kind: 'canceled', words: 'Not answered' };
  if (questionsOf(input).length > 0) return { kind: 'approved', words: 'Answered' };
  return { kind: 'approved', words: decision === 'approved_for_session' ? 'Approved for the session' : 'Approved' };
}

/** What was asked, in one line: a question, or a tool with what it would do. */
export function askedOf({ tool = 'A tool', arguments: input }: CompletedRequest): string {
  const [question] = questionsOf(input);
  return question ? question.text : `${tool} ${summarize(input)}`.trimEnd();
}

/** The questions of a request with what was answered; none when it was no question. */
export function answersOf({ arguments: input, answers = {} }: CompletedRequest): { question: string; answers: string[] }[] {
  const texts = Object.fromEntries(questionsOf(input).map(({ key, text }) => [key, text]));
  return Object.entries(answers).map(([key, given]) => ({ question: texts[key] ?? key, answers: Array.isArray(given) ? given : given.answers }));
}
