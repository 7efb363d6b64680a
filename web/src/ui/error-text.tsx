/** Renders an error text: the message, and in small print the id of the request, by which an operator finds its log line. */

import type { ComponentChildren } from 'preact';
import { splitErrorText } from '../api/errors.ts';

/** `children` are shown after the message. */
export function ErrorText({ text, children }: { text: string; children?: ComponentChildren }) {
  const [message, requestId] = splitErrorText(text);
  return (
    <>
      {message}
      {children}
      {requestId && (
        <span class="request-id">
          {' '}
          Request <code>{requestId}</code>
        </span>
      )}
    </>
  );
}
