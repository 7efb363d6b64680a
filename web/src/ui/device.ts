/** The capabilities of the device: screen width and keyboard. */

import { signal } from '@preact/signals';

const wideScreen = matchMedia('(min-width: 900px)');

/** Whether the session list fits beside a session. */
export const isWide = signal(wideScreen.matches);

wideScreen.addEventListener('change', ({ matches }) => {
  isWide.value = matches;
});

const coarsePointer = matchMedia('(pointer: coarse)');

/**
 * Whether a hardware keyboard is present. On a device whose main pointer is coarse, such as a phone, false until the user presses a
 * key that on-screen keyboards lack.
 */
export const hasKeyboard = signal(!coarsePointer.matches);

coarsePointer.addEventListener('change', ({ matches }) => {
  hasKeyboard.value = !matches;
});

/** Keys that on-screen keyboards lack. */
const HARDWARE_KEYS = ['Alt', 'Control', 'Escape', 'Meta', 'Tab'];

/** Whether an element accepts text, so that a phone shows its keyboard. */
export function isEditable(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));
}

document.addEventListener('keydown', ({ key, target }) => {
  if (HARDWARE_KEYS.includes(key) || !isEditable(target)) hasKeyboard.value = true;
});
