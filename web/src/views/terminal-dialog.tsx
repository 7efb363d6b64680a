/** The dialog with the commands that continue a session in the agent's own terminal program. */

import './terminal-dialog.css';
import { Copy } from 'lucide-preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Session } from '../api/types.ts';
import { sessionDialog } from '../state/jump.ts';
import { copyToClipboard } from '../ui/clipboard.ts';
import { EscapedText } from '../ui/escaped-text.tsx';

export function TerminalDialog({ session }: { session: Session }) {
  const { id, active, metadata } = session;
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const onClose = () => {
    sessionDialog.value = null;
  };
  const host = metadata?.host ?? 'its machine';
  return (
    <dialog class="dialog" ref={dialog} onClose={onClose} aria-labelledby="terminal-title">
      <form method="dialog">
        <h2 id="terminal-title">Continue in the terminal</h2>
        <Command label={`Run this on ${host}:`} text={`npx session-gateway-agent attach ${id}`} />
        <p class="muted small">
          The session is read-only here until you leave the program. Then what you said there appears here, and messages that wait are sent.
        </p>
        <Command label="Or run the program without the hub:" text={String(metadata?.terminalCommand ?? '')} />
        <p class="muted small">
          What you say there does not appear here.
          {active && ' Archive the session first: the agent must not run twice.'}
        </p>
        <div class="actions">
          <button type="submit" class="button">
            Close
          </button>
        </div>
      </form>
    </dialog>
  );
}

function Command({ label, text }: { label: string; text: string }) {
  return (
    <div class="terminal-command">
      <p>{label}</p>
      <code dir="ltr">
        <EscapedText text={text} />
      </code>
      <button type="button" class="button icon" aria-label={`Copy: ${text}`} onClick={() => void copyToClipboard(text)}>
        <Copy size={16} />
      </button>
    </div>
  );
}
