/** A modal dialog with a form. */

import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { errorText } from '../api/errors.ts';
import { ErrorText } from './error-text.tsx';

interface Props {
  title: string;
  text?: ComponentChildren;
  /** The label of the button that submits the form. */
  action: string;
  isDangerous?: boolean | undefined;
  /** When the promise resolves, the dialog closes. If it rejects, the dialog stays open and shows the error. */
  onSubmit: () => Promise<unknown>;
  onClose: () => void;
  children?: ComponentChildren;
}

export function DialogForm({ title, text, action, isDangerous, onSubmit, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  // `close()` returns the focus to the element that had it before, and then fires `onClose`, which removes the dialog.
  const close = () => dialog.current?.close();
  const submit = async (event: Event) => {
    event.preventDefault();
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
        {error && (
          <p class="notice danger" role="alert">
            <ErrorText text={error} />
          </p>
        )}
        <div class="actions">
          <button type="button" class="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class={isDangerous ? 'button danger' : 'button primary'} disabled={isBusy}>
            {action}
          </button>
        </div>
      </form>
    </dialog>
  );
}
