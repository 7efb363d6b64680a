/** Input of a person, as opposed to events that scripts, scrolling or a change of the layout cause. */

/** `input` is also caused by dictation, `click` by assistive technology. `scroll` is missing: a conversation scrolls by itself. */
const TYPES = ['pointerdown', 'pointermove', 'keydown', 'wheel', 'touchmove', 'click', 'input'];

/** Calls back on each input. */
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
