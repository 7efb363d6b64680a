/** What the device has room and keys for. */

import { signal } from '@preact/signals';

const wide = matchMedia('(min-width: 900px)');

/** Whether there is room for the list beside a session, as it is now. */
export const isWide = signal(wide.matches);

wide.addEventListener('change', ({ matches }) => {
  isWide.value = matches;
});

const byFinger = matchMedia('(pointer: coarse)');

/**
 * Whether there are keys beside those on the screen. Where one points with a finger first there are none, as on a phone,
 * until a key is pressed that only a keyboard has, as on a tablet with one. A laptop with a touch screen points by mouse.
 */
export const hasKeyboard = signal(!byFinger.matches);

byFinger.addEventListener('change', ({ matches }) => {
  hasKeyboard.value = !matches;
});

/** Keys that none on the screen stands for. */
const OF_KEYBOARDS = ['Alt', 'Control', 'Escape', 'Meta', 'Tab'];

/** Whether something is a field, for which a phone shows its keys. */
export function isField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));
}

document.addEventListener('keydown', ({ key, target }) => {
  if (OF_KEYBOARDS.includes(key) || !isField(target)) hasKeyboard.value = true;
});
