/** Texts about the outcome of an agent's permission request. */

import type { CompletedRequest } from '../api/types.ts';
import { dropInvalidFields, isNumber, isObject, isString, type Validator } from '../api/validate.ts';
import { parsePlan, parseQuestions } from './tool-arguments.ts';
import { summarizeInput, summaryPath, toolTitle } from './tool-summary.ts';

export interface Decision {
  label: string;
  kind: 'approved' | 'denied' | 'canceled';
}

/** Returns pending or completed requests without their invalid fields. Agents write the requests, so any field may be invalid. */
export function validRequests(requests: Record<string, unknown>): [id: string, request: CompletedRequest][] {
  return Object.entries(requests).flatMap(([id, request]): [string, CompletedRequest][] => {
    if (!isObject(request)) return [];
    return [[id, dropInvalidFields(request, VALIDATORS) as CompletedRequest]];
  });
}

const isStringList = (value: unknown) => Array.isArray(value) && value.every(isString);
const isAnswers = (value: unknown) =>
  typeof value === 'object' &&
  value !== null &&
  Object.values(value).every((answer: unknown) => isStringList(answer) || isStringList((answer as { answers?: unknown } | null)?.answers));

const isRule = (value: unknown) => isObject(value) && isString(value.kind) && isString(value.label);
const isChoices = (value: unknown) =>
  Array.isArray(value) && value.every((choice) => isObject(choice) && isString(choice.id) && isString(choice.label));
const isShortened = (value: unknown) => isObject(value) && isNumber(value.parts) && isNumber(value.bytes);

const VALIDATORS: Record<string, Validator> = {
  sessionRule: (value) => value === null || isRule(value),
  approvedBy: isRule,
  choices: isChoices,
  needsChoice: (value) => value === true,
  shortened: isShortened,
  tool: isString,
  createdAt: isNumber,
  completedAt: isNumber,
  status: isString,
  reason: isString,
  mode: isString,
  decision: isString,
  allowTools: isStringList,
  answers: isAnswers,
};

/** Describes the outcome of a completed request. A request without a status was never answered. */
export function describeDecision({ status, decision, approvedBy, arguments: input }: CompletedRequest): Decision {
  if (status === 'denied') return { kind: 'denied', label: decision === 'abort' ? 'Denied and stopped' : 'Denied' };
  if (status !== 'approved') return { kind: 'canceled', label: 'Not answered' };
  if (approvedBy)
    return {
      kind: 'approved',
      label: approvedBy.kind === 'mode' ? `Not asked: ${approvedBy.label}` : `Allowed by the rule ${approvedBy.label}`,
    };
  if (parseQuestions(input).questions.length > 0) return { kind: 'approved', label: 'Answered' };
  return { kind: 'approved', label: decision === 'approved_for_session' ? 'Approved for the session' : 'Approved' };
}

/** Summarizes a request in one line: the first question, or the tool and its input. `path` is set if the input is a file's path. */
export function summarizeRequest({ tool = 'A tool', arguments: input }: CompletedRequest): { text: string; path?: string } {
  const [question] = parseQuestions(input).questions;
  if (question) return { text: question.text };
  const plan = parsePlan(tool, input);
  if (plan) return { text: `Plan: ${plan.plan.replace(/^[#\s]+/, '').split('\n', 1)[0]}` };
  const path = summaryPath(input);
  return path === undefined ? { text: `${toolTitle(tool, input)} ${summarizeInput(input)}`.trimEnd() } : { text: `${tool} `, path };
}

/** Returns the questions of a request with their answers, and the choice among the agent's own approvals. */
export function answeredQuestions({
  arguments: input,
  answers = {},
  choices = [],
}: CompletedRequest): { question: string; answers: string[] }[] {
  const texts = new Map(parseQuestions(input).questions.map(({ key, text }) => [key, text]));
  const labels = new Map(choices.map(({ id, label }) => [id, label]));
  return Object.entries<string[] | { answers: string[] }>(answers).map(([key, answer]) => {
    const given: string[] = Array.isArray(answer) ? answer : answer.answers;
    const isChoice = key === 'choice' && labels.size > 0;
    return isChoice
      ? { question: 'Choice', answers: given.map((id) => labels.get(id) ?? id) }
      : { question: texts.get(key) ?? key, answers: given };
  });
}
