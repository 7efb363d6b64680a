/** A message that the hub holds until the session's CLI is back. */

import { Hourglass, X } from 'lucide-preact';
import { useState } from 'preact/hooks';
import type { Session } from '../api/types.ts';
import type { OutgoingMessage } from '../content/unstored-messages.ts';
import { cancelHeldMessage } from '../state/actions.ts';
import { sync } from '../state/hub-client.ts';
import { TextWithCode } from '../ui/text-with-code.tsx';
import { tryOrToast } from '../ui/toasts.tsx';
import { UserMessage } from './user-message.tsx';

interface Props {
  sessionId: string;
  metadata: Session['metadata'];
  message: OutgoingMessage;
}

export function HeldMessage({ sessionId, metadata, message }: Props) {
  const [isBusy, setBusy] = useState(false);
  const cancel = async () => {
    setBusy(true);
    await tryOrToast('Could not cancel the message', () => cancelHeldMessage(sessionId, message));
    setBusy(false);
    void sync.fetchHeldMessages(sessionId);
  };
  return (
    <div class="outgoing" data-state="held">
      <UserMessage attachments={[]} sessionId={sessionId} metadata={metadata} isActive={false}>
        <TextWithCode text={message.text} />
      </UserMessage>
      <div class="held-line">
        <p class="outgoing-status small" role="status">
          <Hourglass size={13} /> <span class="ellipsis">Waits for {metadata?.host || 'its machine'}</span>
        </p>
        <button type="button" class="button quiet" disabled={isBusy} onClick={() => void cancel()}>
          <X size={15} /> Cancel
        </button>
      </div>
    </div>
  );
}
