/** The agent's requests that wait for the user: permission requests, and questions as a form. */

import { approvedOption, offeredChoices, permissionResult } from './permissions.mjs';
import { answersByPosition, elicitationResult } from './questions.mjs';
import { isKnownKind } from './tool-input.mjs';
import { MAX_INPUT_BYTES, isText, limitSize } from './values.mjs';

/** The tool name of a question that belongs to no tool call. */
const QUESTION_TOOL = 'AskUserQuestion';

/**
 * @typedef {{params: any, call?: import('./tool-calls.mjs').Call, questions: object[], isForm: boolean}} NewRequest
 *   `params`: of the agent's request; `call`: the tool call that waits for the answer; `isForm`: whether the agent asks with
 *   `elicitation/create`
 */
export class OpenRequests {
  /** @type {Map<string, NewRequest & {choices?: import('./permissions.mjs').Choice[]}>} */
  #requests = new Map();
  #calls;
  #newId;
  #now;

  /** @param {{calls: import('./tool-calls.mjs').ToolCalls, newId: () => string, now: () => number}} options */
  constructor({ calls, newId, now }) {
    this.#calls = calls;
    this.#newId = newId;
    this.#now = now;
  }

  /**
   * Adds a request. Returns the request for the hub, and `fullArguments` if the arguments of the request are shortened.
   * @param {NewRequest} newRequest
   */
  add({ params, call, questions, isForm }) {
    const id = this.#calls.newRequestId(call?.id ?? this.#newId());
    const fullArguments = this.#argumentsOf(params, call, questions, isForm);
    const args = limitSize(fullArguments, MAX_INPUT_BYTES);
    const isShortened = JSON.stringify(args) !== JSON.stringify(fullArguments);
    const kind = isKnownKind(call?.kind) ? { kind: call.kind } : {};
    const offer = isForm || questions.length > 0 ? {} : offeredChoices(params.options, isText(args.plan));
    this.#requests.set(id, { params, call, questions, isForm, choices: offer.choices });
    const request = { id, tool: call?.name ?? QUESTION_TOOL, arguments: args, createdAt: this.#now(), ...kind, ...offer };
    return { request, ...(isShortened && { fullArguments }) };
  }

  #argumentsOf({ message }, call, questions, isForm) {
    if (questions.length > 0) return { questions };
    return isForm ? { message } : this.#calls.inputOf(call);
  }

  /** Returns the JSON-RPC result for the agent. @throws {Error} if the request is not open */
  responseTo(id, decision) {
    const request = this.#requests.get(id);
    if (!request) throw new Error(`There is no open request ${id}.`);
    const { params, questions, isForm, choices } = request;
    if (isForm) return elicitationResult(params, decision);
    const result = permissionResult(params, decision, choices);
    const hasAnswers = questions.length > 0 && decision.status === 'approved';
    return hasAnswers ? { ...result, answers: answersByPosition(questions, decision.answers) } : result;
  }

  hasEndedCall(id) {
    return this.#requests.get(id)?.call?.isEnded === true;
  }

  /** Whether an open request is for a call. */
  hasRequestFor(call) {
    return [...this.#requests.values()].some((request) => request.call === call);
  }

  /** Removes an answered request. Returns its call, and whether an approval allows the call: the agent may offer no option for it. */
  resolve(id, decision) {
    const request = this.#requests.get(id);
    this.#requests.delete(id);
    if (!request) return {};
    const { call, params, isForm, choices } = request;
    return { call, isAllowed: isForm || approvedOption(params.options, decision, choices) !== undefined };
  }
}
