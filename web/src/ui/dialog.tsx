/** Dialogs: a question with a yes and a no, or with one field. */

import { computed, signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { sentence } from '../api/errors.ts';

interface Question {
  title: string;
  text?: ComponentChildren;
  /** With a field, what is in it at first. `onWrite` hears of every change, for what is to be kept when nobody confirms. */
  field?: { label: string; value: string; maxLength: number; isOptional?: boolean; onWrite?: (value: string) => void };
  action: string;
  isDangerous?: boolean;
  /** The dialog stays open, with the reason, when this fails. */
  onConfirm: (value: string) => Promise<unknown>;
}

const asked = signal<Question | null>(null);

/** Whether a dialog is open. */
export const isAsking = computed(() => asked.value !== null);

/** Opens a dialog. */
export function ask(question: Question): void {
  asked.value = question;
}

/** The place of the open dialog. */
export function Dialogs() {
  const question = asked.value;
  return question && <Asked key={question.title} question={question} />;
}

function Asked({ question }: { question: Question }) {
  const { title, text, field, action, isDangerous, onConfirm } = question;
  const dialog = useRef<HTMLDialogElement>(null);
  const [value, setValue] = useState(field?.value ?? '');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  // The browser gives the focus back to where it was; then the dialog is taken out of the page.
  const close = () => dialog.current?.close();
  const onClose = () => {
    asked.value = null;
  };
  const write = (next: string) => {
    setValue(next);
    field?.onWrite?.(next);
  };
  const confirm = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await onConfirm(value.trim());
      close();
    } catch (failure) {
      setError(sentence(failure));
      setBusy(false);
    }
  };
  return (
    <dialog class="dialog" ref={dialog} onClose={onClose} aria-labelledby="dialog-title">
      <form onSubmit={confirm}>
        <h2 id="dialog-title">{title}</h2>
        {text && <p class="muted">{text}</p>}
        {field && (
          <div class="field">
            <label for="dialog-field">{field.label}</label>
            <input
              id="dialog-field"
              class="input"
              dir="auto"
              value={value}
              maxLength={field.maxLength}
              required={!field.isOptional}
              autoFocus
              onInput={({ currentTarget }) => write(currentTarget.value)}
            />
          </div>
        )}
        {error && (
          <p class="notice danger" role="alert">
            {error}
          </p>
        )}
        <div class="actions">
          <button type="button" class="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class={isDangerous ? 'button danger' : 'button primary'} disabled={busy}>
            {action}
          </button>
        </div>
      </form>
    </dialog>
  );
}
