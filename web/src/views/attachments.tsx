/** The files that go with the next message. */

import { Paperclip, RotateCw, X } from 'lucide-preact';
import { removeFile, sendFile, uploadsOf } from '../state/uploads.ts';
import { sizeOf } from '../ui/pieces.tsx';

/** The files above the line to write. */
export function Uploads({ sessionId }: { sessionId: string }) {
  const all = uploadsOf(sessionId);
  if (all.length === 0) return null;
  return (
    <>
      <ul role="list" class="uploads" aria-label="Files to send">
        {all.map((one) => (
          <li key={one.id} data-state={one.state}>
            <Paperclip size={15} aria-hidden />
            <span class="ellipsis">{one.file.name}</span>
            <span class="muted small">{one.state === 'failed' ? one.error : sizeOf(one.file.size)}</span>
            {one.state === 'sending' && <progress value={one.share} max={1} aria-label={`Sending ${one.file.name}`} />}
            {one.state === 'failed' && (
              <button type="button" class="button quiet icon" aria-label={`Send ${one.file.name} again`} onClick={() => void sendFile(sessionId, one)}>
                <RotateCw size={16} aria-hidden />
              </button>
            )}
            <button type="button" class="button quiet icon" aria-label={`Remove ${one.file.name}`} onClick={() => removeFile(sessionId, one)}>
              <X size={16} aria-hidden />
            </button>
          </li>
        ))}
      </ul>
      {all.some(({ state }) => state === 'failed') && (
        <p class="notice danger small" role="alert">
          A file did not reach the machine. Send it again or remove it: the message waits until then.
        </p>
      )}
    </>
  );
}
