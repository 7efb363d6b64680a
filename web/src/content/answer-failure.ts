/** The texts of the notification that is shown when an answer from a notification has failed. */

import { responseError } from '../api/errors.ts';

export interface AnswerFailure {
  title: string;
  text: string;
  /** Whether the answer was certainly refused. Otherwise only the session shows whether the answer arrived. */
  isRefused: boolean;
}

/** The titles by the hub's error codes. */
const TITLES: Record<string, string> = {
  answer_token_used: 'Already answered',
  request_not_found: 'No longer waiting',
  session_not_found: 'No longer waiting',
};

/**
 * Describes a failed answer.
 * @param status of the response; 0 without a response
 * @param body of the response, `{code, error}` from the hub
 */
export function describeAnswerFailure(status: number, body: unknown): AnswerFailure {
  const { code } = (body ?? {}) as { code?: unknown };
  // Without a response, or if the agent did not respond in time, the answer may have arrived.
  if (status === 0 || status === 504 || typeof code !== 'string')
    return {
      title: 'Not confirmed',
      text: 'The answer may not have arrived. Open the session to see whether it still waits.',
      isRefused: false,
    };
  return { title: TITLES[code] ?? 'Not answered', text: responseError(status, body).message, isRefused: true };
}
