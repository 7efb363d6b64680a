/** A button that opens a sheet: a modal dialog with further buttons. */

import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface SheetItem {
  key: string;
  label: ComponentChildren;
  isDangerous?: boolean;
  onSelect: () => void;
}

interface Props {
  label: string;
  class: string;
  title: string;
  text?: string | undefined;
  items: SheetItem[];
}

export function SheetButton({ label, class: className, ...sheet }: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" class={className} aria-haspopup="dialog" onClick={() => setOpen(true)}>
        {label}
      </button>
      {isOpen && <Sheet {...sheet} onClose={() => setOpen(false)} />}
    </>
  );
}

/** When an item is selected, closes the sheet, which returns the focus to the button, and then calls `onSelect`. */
function Sheet({ title, text, items, onClose }: Omit<Props, 'label' | 'class'> & { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const close = () => dialog.current?.close();
  return (
    <dialog
      class="dialog sheet"
      ref={dialog}
      aria-labelledby={titleId}
      onClose={onClose}
      onClick={({ target }) => target === dialog.current && close()}
    >
      <div class="sheet-content">
        <h2 id={titleId}>{title}</h2>
        {text && <p class="notice warn small">{text}</p>}
        {items.map(({ key, label, isDangerous, onSelect }) => (
          <button
            key={key}
            type="button"
            class={isDangerous ? 'button danger' : 'button'}
            onClick={() => {
              close();
              onSelect();
            }}
          >
            {label}
          </button>
        ))}
        <button type="button" class="button quiet" onClick={close}>
          Cancel
        </button>
      </div>
    </dialog>
  );
}
