/** The modal dialog: a confirmation, optionally with one text field. */

import { computed, signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { DialogForm } from './dialog-form.tsx';

interface DialogOptions {
  title: string;
  text?: ComponentChildren;
  /** A text field with its initial value. `onInput` receives every change, so that a draft can be stored. */
  field?: { label: string; value: string; maxLength: number; isOptional?: boolean; onInput?: (value: string) => void };
  /** The label of the confirm button. */
  action: string;
  isDangerous?: boolean;
  /** Reads signals. Returns why the action is no longer possible, such as that another device has deleted the session. */
  whyObsolete?: () => string | undefined;
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
  const { title, text, field, action, isDangerous, whyObsolete, onConfirm } = options;
  const [value, setValue] = useState(field?.value ?? '');
  const changeValue = (text: string) => {
    setValue(text);
    field?.onInput?.(text);
  };
  const onClose = () => {
    openedDialog.value = null;
  };
  return (
    <DialogForm
      title={title}
      text={text}
      action={action}
      isDangerous={isDangerous}
      obsolete={whyObsolete?.()}
      hasInput={value.trim() !== ''}
      onSubmit={() => onConfirm(value.trim())}
      onClose={onClose}
    >
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
            onInput={({ currentTarget }) => changeValue(currentTarget.value)}
          />
        </div>
      )}
    </DialogForm>
  );
}
