/** Sheets: modal dialogs at the bottom of a phone's screen. */

import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';

export interface SheetItem {
  key: string;
  label: ComponentChildren;
  isDangerous?: boolean;
  onSelect: () => void;
}

interface Props {
  title: string;
  text?: string | undefined;
  items: SheetItem[];
  onClose: () => void;
}

interface FrameProps {
  title: string;
  onClose: () => void;
  /** Renders the content below the title. `close` closes the sheet, and returns the focus to the element that had it before. */
  children: (close: () => void) => ComponentChildren;
}

/** A sheet with any content. It opens at once, and a click outside of it closes it. */
export function SheetFrame({ title, onClose, children }: FrameProps) {
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
        {children(close)}
      </div>
    </dialog>
  );
}

/** A sheet with buttons. When a button is pressed, the sheet is closed before `onSelect` is called. */
export function Sheet({ title, text, items, onClose }: Props) {
  return (
    <SheetFrame title={title} onClose={onClose}>
      {(close) => (
        <>
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
        </>
      )}
    </SheetFrame>
  );
}
