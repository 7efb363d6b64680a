/** What became of an agent's request, in words. */

import type { CompletedRequest } from '../api/types.ts';
import { checked, type Is, isNumber, isObject, isText } from '../checked.ts';
import { questionsOf } from './arguments.ts';
import { summarize } from './tools.ts';

/** How a request ended. */
export interface Decision {
  words: string;
  kind: 'approved' | 'denied' | 'canceled';
}

/** Requests, answered or not, as the views can show them: agents write them, and what is not of its kind is left out. */
export function requestsOf(written: Record<string, unknown>): [id: string, request: CompletedRequest][] {
  return Object.entries(written).flatMap(([id, one]): [string, CompletedRequest][] => {
    if (!isObject(one)) return [];
    return [[id, checked(one, FIELDS) as CompletedRequest]];
  });
}

const areStrings = (value: unknown) => Array.isArray(value) && value.every(isText);
const areAnswers = (value: unknown) =>
  typeof value === 'object' && value !== null && Object.values(value).every((one: unknown) => areStrings(one) || areStrings((one as { answers?: unknown } | null)?.answers));

/** What each field of a request has to be. */
const FIELDS: Record<string, Is> = {
  tool: isText,
  createdAt: isNumber,
  completedAt: isNumber,
  status: isText,
  reason: isText,
  mode: isText,
  decision: isText,
  allowTools: areStrings,
  answers: areAnswers,
};

/** How a request ended. One without a status, which no agent should write, counts as never answered. */
export function decisionOf({ status, decision, arguments: input }: CompletedRequest): Decision {
  if (status === 'denied') return { kind: 'denied', words: decision === 'abort' ? 'Denied and stopped' : 'Denied' };
  if (status !== 'approved') return { kind: 'canceled', words: 'Not answered' };
  if (questionsOf(input).questions.length > 0) return { kind: 'approved', words: 'Answered' };
  return { kind: 'approved', words: decision === 'approved_for_session' ? 'Approved for the session' : 'Approved' };
}

/** What was asked, in one line: a question, or a tool with what it would do. */
export function askedOf({ tool = 'A tool', arguments: input }: CompletedRequest): string {
  const [question] = questionsOf(input).questions;
  return question ? question.text : `${tool} ${summarize(input)}`.trimEnd();
}

/** The questions of a request with what was answered; none when it was no question. */
export function answersOf({ arguments: input, answers = {} }: CompletedRequest): { question: string; answers: string[] }[] {
  const texts = new Map(questionsOf(input).questions.map(({ key, text }) => [key, text]));
  return Object.entries(answers).map(([key, given]) => ({ question: texts.get(key) ?? key, answers: Array.isArray(given) ? given : given.answers }));
}
