/** A modal dialog with a form. */

import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { errorText } from '../api/errors.ts';
import { ErrorNotice } from './loading.tsx';

interface Props {
  title: string;
  text?: ComponentChildren;
  /** The label of the button that submits the form. */
  action: string;
  isDangerous?: boolean | undefined;
  /** Why the form can no longer be submitted. If the user has typed nothing (`hasInput`), the dialog then closes. */
  obsolete?: string | undefined;
  hasInput?: boolean;
  /** When the promise resolves, the dialog closes. If it rejects, the dialog stays open and shows the error. */
  onSubmit: () => Promise<unknown>;
  onClose: () => void;
  children?: ComponentChildren;
}

export function DialogForm({ title, text, action, isDangerous, obsolete, hasInput, onSubmit, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  // `close()` returns the focus to the element that had it before, and then fires `onClose`, which removes the dialog.
  const close = () => dialog.current?.close();
  // The own submission may be what makes the form obsolete.
  const obsoleteText = isBusy ? undefined : obsolete;
  useLayoutEffect(() => {
    if (obsoleteText && !hasInput) close();
  }, [obsoleteText]);
  const problem = obsoleteText ?? error;
  const submit = async (event: Event) => {
    event.preventDefault();
    if (obsoleteText) return;
    setBusy(true);
    setError(null);
    try {
      await onSubmit();
      close();
    } catch (failure) {
      setError(errorText(failure));
      setBusy(false);
    }
  };
  return (
    <dialog class="dialog" ref={dialog} onClose={onClose} aria-labelledby={titleId}>
      <form onSubmit={submit}>
        <h2 id={titleId}>{title}</h2>
        {text && <p class="muted">{text}</p>}
        {children}
        <ErrorNotice text={problem} />
        <div class="actions">
          <button type="button" class="button" onClick={close}>
            {obsoleteText ? 'Close' : 'Cancel'}
          </button>
          {!obsoleteText && (
            <button type="submit" class={isDangerous ? 'button danger' : 'button primary'} disabled={isBusy}>
              {action}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}
