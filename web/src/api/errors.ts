/** Errors of requests to the hub. Their messages are shown to the user. */

import { textForPeople } from './error-texts.ts';

/** An error response of the hub, or no response at all. */
export class HubError extends Error {
  /** The HTTP status; 0 if the hub could not be reached. */
  readonly status: number;
  /** The hub's error code; `unreachable` if there was no response. */
  readonly code: string;
  /** The invalid field of the request, if the hub names one. */
  readonly field: string | undefined;
  /** The id of the request in the log of the hub, if the response has one. */
  readonly requestId: string | undefined;

  constructor(status: number, code: string, message: string, field?: string, requestId?: string) {
    super(message);
    this.name = 'HubError';
    this.status = status;
    this.code = code;
    this.field = field;
    this.requestId = requestId;
  }

  /** Whether the hub has answered, and not a proxy between the browser and the hub. */
  get isFromHub(): boolean {
    return this.status !== 0 && this.code !== `http_${this.status}`;
  }

  /** Whether the same request may succeed later. */
  get isTransient(): boolean {
    if (this.status === 500) return !this.isFromHub;
    return [0, 408, 425, 429].includes(this.status) || this.status > 501;
  }
}

/** Creates the error for the answer of a machine that did not do what it was asked. `fallback` is its message if the machine gives none. */
export const machineError = ({ error, code }: { error?: unknown; code?: unknown }, fallback: string): HubError =>
  new HubError(200, typeof code === 'string' ? code : 'machine_error', (typeof error === 'string' && error) || fallback);

/** Creates the error of a request without a response: its status is 0, and it is transient. */
export function unreachableError(): HubError {
  return new HubError(0, 'unreachable', 'The hub cannot be reached.');
}

/** The header of a response with the id of its request. */
export const REQUEST_ID_HEADER = 'x-request-id';

/**
 * Creates the error for an error response.
 * @param requestId the value of the header {@link REQUEST_ID_HEADER}
 */
export function responseError(status: number, body: unknown, requestId?: string | null): HubError {
  const { error, code, field } = (typeof body === 'object' && body !== null ? body : {}) as {
    error?: unknown;
    code?: unknown;
    field?: unknown;
  };
  const errorCode = typeof code === 'string' ? code : `http_${status}`;
  return new HubError(
    status,
    errorCode,
    textForPeople(status, errorCode, typeof error === 'string' ? error : undefined),
    typeof field === 'string' ? field : undefined,
    requestId ?? undefined,
  );
}

/** In an error text, stands between the message and the id of the request. */
const REQUEST_LINE = '\nRequest ';

/** Returns the text to show for a thrown value: its message, and a line with the id of the request if the hub has answered. */
export function errorText(error: unknown): string {
  const message = error instanceof Error && error.message ? error.message : String(error);
  const requestId = (error as HubError | null)?.requestId;
  return requestId ? message + REQUEST_LINE + requestId : message;
}

/** Splits a text of {@link errorText} into the message and the id of the request. */
export const splitErrorText = (text: string): string[] => text.split(REQUEST_LINE);
