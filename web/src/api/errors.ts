/** Errors of requests to the hub. Their messages are shown to the user. */

/** An error response of the hub, or no response at all. */
export class HubError extends Error {
  /** The HTTP status; 0 if the hub could not be reached. */
  readonly status: number;
  /** The hub's error code; `unreachable` if there was no response. */
  readonly code: string;
  /** The invalid field of the request, if the hub names one. */
  readonly field: string | undefined;

  constructor(status: number, code: string, message: string, field?: string) {
    super(message);
    this.name = 'HubError';
    this.status = status;
    this.code = code;
    this.field = field;
  }

  /** Whether the same request may succeed later. */
  get isTransient(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

export function unreachableError(): HubError {
  return new HubError(0, 'unreachable', 'The hub cannot be reached.');
}

/** Matches the hub's error for a call that no connected CLI handles. The text names a method, so {@link NOT_READY} replaces the text. */
const NO_HANDLER = /No handler registered for (permission\b|\w+\. Check that)/;

const NOT_READY = "The agent's CLI is not connected, or not ready yet. Try again in a few seconds.";

/** Creates the error for an error response. */
export function responseError(status: number, body: unknown): HubError {
  const { error, code, field } = (typeof body === 'object' && body !== null ? body : {}) as {
    error?: unknown;
    code?: unknown;
    field?: unknown;
  };
  return new HubError(
    status,
    typeof code === 'string' ? code : `http_${status}`,
    typeof error !== 'string' ? `The hub answered with status ${status}.` : NO_HANDLER.test(error) ? NOT_READY : error,
    typeof field === 'string' ? field : undefined,
  );
}

/** Returns the message to show for a thrown value. */
export function errorText(error: unknown): string {
  return error instanceof Error && error.message ? error.message : String(error);
}
