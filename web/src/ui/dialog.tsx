/** The modal dialog: a confirmation, optionally with one text field. */

import { computed, signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { errorText } from '../api/errors.ts';

interface DialogOptions {
  title: string;
  text?: ComponentChildren;
  /** A text field with its initial value. `onInput` receives every change, so that a draft can be stored. */
  field?: { label: string; value: string; maxLength: number; isOptional?: boolean; onInput?: (value: string) => void };
  /** The label of the confirm button. */
  action: string;
  isDangerous?: boolean;
  /** If the promise rejects, the dialog stays open and shows the error. */
  onConfirm: (value: string) => Promise<unknown>;
}

const openedDialog = signal<DialogOptions | null>(null);

export const isDialogOpen = computed(() => openedDialog.value !== null);

export function openDialog(options: DialogOptions): void {
  openedDialog.value = options;
}

/** Renders the open dialog. */
export function DialogHost() {
  const options = openedDialog.value;
  return options && <Dialog key={options.title} options={options} />;
}

function Dialog({ options }: { options: DialogOptions }) {
  const { title, text, field, action, isDangerous, onConfirm } = options;
  const dialog = useRef<HTMLDialogElement>(null);
  const [value, setValue] = useState(field?.value ?? '');
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  // `close()` returns the focus to the element that had it before, and then fires `onClose`, which removes the dialog.
  const close = () => dialog.current?.close();
  const onClose = () => {
    openedDialog.value = null;
  };
  const changeValue = (next: string) => {
    setValue(next);
    field?.onInput?.(next);
  };
  const confirm = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await onConfirm(value.trim());
      close();
    } catch (failure) {
      setError(errorText(failure));
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
              onInput={({ currentTarget }) => changeValue(currentTarget.value)}
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
          <button type="submit" class={isDangerous ? 'button danger' : 'button primary'} disabled={isBusy}>
            {action}
          </button>
        </div>
      </form>
    </dialog>
  );
}
