/** What went wrong with a request, in words for a person. */

/** An answer of the hub that says no, or no answer at all. */
export class HubError extends Error {
  /** The HTTP status; 0 when the hub could not be reached. */
  readonly status: number;
  /** The hub's stable word for it; `unreachable` when there was no answer. */
  readonly code: string;
  /** The field of the request that is at fault, where one is. */
  readonly field: string | undefined;

  constructor(status: number, code: string, message: string, field?: string) {
    super(message);
    this.name = 'HubError';
    this.status = status;
    this.code = code;
    this.field = field;
  }

  /** Whether the same request may succeed a little later, without anybody changing anything. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

/** The hub could not be reached. */
export function unreachable(): HubError {
  return new HubError(0, 'unreachable', 'The hub cannot be reached.');
}

/** Makes an error of a refusal's status and body. */
export function refusal(status: number, body: unknown): HubError {
  const { error, code, field } = (typeof body === 'object' && body !== null ? body : {}) as { error?: unknown; code?: unknown; field?: unknown };
  return new HubError(
    status,
    typeof code === 'string' ? code : `http_${status}`,
    typeof error === 'string' ? error : `The hub answered with status ${status}.`,
    typeof field === 'string' ? field : undefined,
  );
}

/** The sentence to show for anything that was thrown. */
export function sentence(error: unknown): string {
  return error instanceof Error && error.message ? error.message : String(error);
}
