/** Parses the records `{type: "system", subtype}` that some agents write about their own work. */

import { isNumber, isObject, isString } from '../api/validate.ts';
import type { MessagePart } from './message-part.ts';
import { describeUsage } from './usage.ts';

/** Returns null for a record of an unknown subtype. */
export function parseSystemRecord(data: Record<string, unknown>): MessagePart[] | null {
  switch (data.subtype) {
    case 'turn_duration':
      return [];
    case 'api_error':
      return [{ kind: 'error', text: describeApiError(data) }];
    case 'compact_boundary':
    case 'microcompact_boundary':
      return [{ kind: 'event', name: 'compaction', text: describeTokens(data.compactMetadata ?? data.microcompactMetadata) }];
    case 'away_summary':
      return isString(data.content) ? [{ kind: 'event', name: 'recap', text: data.content }] : null;
    default:
      return null;
  }
}

/** Describes the size of a context before its compaction. Returns undefined if the record does not contain the size. */
function describeTokens(metadata: unknown): string | undefined {
  return describeUsage({ used: isObject(metadata) ? metadata.preTokens : undefined }) || undefined;
}

function describeApiError({ error, cause, retryAttempt, maxRetries }: Record<string, unknown>): string {
  const reason = findReason(error) ?? findReason(cause) ?? 'no details';
  const retry = isNumber(retryAttempt) && isNumber(maxRetries) ? ` Retry ${retryAttempt} of ${maxRetries}.` : '';
  return `API error: ${reason.replace(/\.$/, '')}.${retry}`;
}

/** Finds the reason of an error: the reason of the nested `error`, or else the message, the code or the HTTP status. */
function findReason(error: unknown): string | undefined {
  if (isString(error)) return error || undefined;
  if (!isObject(error)) return undefined;
  const { message, code, status } = error;
  const nested = findReason(error.error);
  if (nested !== undefined) return nested;
  if (isString(message) && message !== '') return message;
  if (isString(code)) return code;
  return isNumber(status) ? `status ${status}` : undefined;
}
