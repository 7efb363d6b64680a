/** A message of the user, as the conversation shows it. */

import type { ComponentChildren } from 'preact';
import type { Attachment, Session } from '../api/types.ts';
import { Attachments } from './attachments.tsx';

interface Props {
  attachments: Attachment[];
  sessionId: string;
  metadata: Session['metadata'];
  isActive: boolean;
  meta?: ComponentChildren;
  note?: string | undefined;
  isCanceled?: boolean;
  /** Shown below the text. */
  after?: ComponentChildren;
  children: ComponentChildren;
}

export function UserMessage({ attachments, sessionId, metadata, isActive, meta, note, isCanceled = false, after, children }: Props) {
  return (
    <div class={isCanceled ? 'user-message canceled' : 'user-message'}>
      <span class="prompt" aria-hidden>
        ›
      </span>
      <div>
        {meta}
        <span class="visually-hidden">You: </span>
        <div class="user-message-text">{children}</div>
        {attachments.length > 0 && <Attachments attachments={attachments} sessionId={sessionId} metadata={metadata} isActive={isActive} />}
        {note && <p class="muted small">{note}</p>}
        {after}
      </div>
    </div>
  );
}
