/** A text of which every character is seen. */

import { visible } from '../content/visible.ts';

/** A text with marks in place of characters that would not be seen, or would turn others around. */
export function Visible({ text }: { text: string }) {
  return (
    <>
      {visible(text).map(({ text: words, isMark }, at) =>
        isMark ? (
          <span key={at} class="unseen">
            {words}
          </span>
        ) : (
          words
        ),
      )}
    </>
  );
}
