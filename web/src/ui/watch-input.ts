/** Detects input of the user. Events that scripts, scrolling or a change of the layout cause do not count. */

/** Includes `input` for dictation and `click` for assistive technology. Excludes `scroll`, because a conversation scrolls by itself. */
const TYPES = ['pointerdown', 'pointermove', 'keydown', 'wheel', 'touchmove', 'click', 'input'];

/** Calls `onInput` for each input of the user in `target`. */
export function watchInput(target: Pick<Window, 'addEventListener'>, onInput: () => void): void {
  let position = '';
  const handle = (event: Event) => {
    if (!event.isTrusted) return;
    if (event.type === 'pointermove') {
      // Some browsers send this event when the content moves under a resting pointer.
      const { screenX, screenY } = event as PointerEvent;
      const previous = position;
      position = `${screenX} ${screenY}`;
      if (previous === '' || position === previous) return;
    }
    onInput();
  };
  for (const type of TYPES) target.addEventListener(type, handle, { capture: true, passive: true });
}
