/** The composer as one line, while a permission request is pending. */

import { PenLine } from 'lucide-preact';
import { useState } from 'preact/hooks';
import { escapeText } from '../content/escape-invisible.ts';
import { getMessageDraft } from '../state/drafts.ts';
import { getUploads } from '../state/uploads.ts';
import { hasKeyboard } from '../ui/device.ts';
import { KeyHint } from '../ui/key-hint.tsx';

/**
 * Returns whether the composer is folded, and a function that unfolds it. An unfolded composer stays unfolded until no request is
 * pending.
 */
export function useComposerFold(sessionId: string, hasRequests: boolean): [isFolded: boolean, unfold: () => void] {
  const [isUnfolded, setUnfolded] = useState(false);
  const [hadRequests, setHadRequests] = useState(hasRequests);
  if (hadRequests !== hasRequests) {
    setHadRequests(hasRequests);
    setUnfolded(hasRequests && isWriting(sessionId));
  }
  return [hasRequests && !isUnfolded, () => setUnfolded(true)];
}

/**
 * Whether the user is writing, so that a request must not fold the composer. With a keyboard, this includes an empty composer with the
 * focus: the next keys would answer the request.
 */
function isWriting(sessionId: string): boolean {
  const hasFocus = document.querySelector('.composer:focus-within') !== null;
  return hasFocus && (hasKeyboard.value || getMessageDraft(sessionId).text !== '' || getUploads(sessionId).length > 0);
}

/** The button has the id of the text field, so that a shortcut finds either of them. */
export function FoldedComposer({ sessionId, onUnfold }: { sessionId: string; onUnfold: () => void }) {
  const text = getMessageDraft(sessionId).text.trim();
  const { length } = getUploads(sessionId);
  const draft = [text.slice(0, 200), length > 0 && (length === 1 ? '1 file' : `${length} files`)].filter(Boolean).join(' · ');
  return (
    <button type="button" class="composer-folded" id="composer" onClick={onUnfold}>
      <PenLine size={16} />
      <span class="ellipsis">{draft === '' ? 'Write a message' : `Draft: ${escapeText(draft)}`}</span>
      <KeyHint keys="c" />
    </button>
  );
}
