/** Shows a text including its invisible characters. */

import { escapeInvisible } from '../content/escape-invisible.ts';

/** Renders a text with highlighted escapes of its invisible characters. */
export function EscapedText({ text }: { text: string }) {
  return (
    <>
      {escapeInvisible(text).map(({ text: part, isEscape }, index) =>
        isEscape ? (
          <span key={index} class="escape">
            {part}
          </span>
        ) : (
          part
        ),
      )}
    </>
  );
}
