/** Presses of single keys as shortcuts: outside text fields and dialogs, without modifiers, and not while a key is held. */

import { useLayoutEffect, useRef } from 'preact/hooks';
import { isEditable } from '../ui/device.ts';

/** Whether an event can be a shortcut of a single key. */
export function isPlainKeyPress(event: KeyboardEvent): boolean {
  const { target, key, ctrlKey, metaKey, altKey, shiftKey, repeat, defaultPrevented } = event;
  // Shift is no modifier of a key that is not a lower-case letter: some keyboard layouts need it for `.` and `/`.
  const hasModifier = ctrlKey || metaKey || altKey || (shiftKey && /^[a-z]$/.test(key));
  if (isEditable(target) || hasModifier || repeat || defaultPrevented) return false;
  return document.querySelector('dialog[open]') === null;
}

/** Calls `onKey` for each press of a single key, before the shortcuts of the page. If `onKey` returns true, the key has no other effect. */
export function useRequestKeys(onKey: (key: string) => boolean): void {
  const handler = useRef(onKey);
  handler.current = onKey;
  // Not `useEffect`: a key that is pressed as soon as the view is visible must not run the page's shortcut.
  useLayoutEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (isPlainKeyPress(event) && handler.current(event.key)) event.preventDefault();
    };
    document.addEventListener('keydown', onKeyDown, true);
    return () => document.removeEventListener('keydown', onKeyDown, true);
  }, []);
}
