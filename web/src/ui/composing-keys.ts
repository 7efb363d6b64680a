/**
 * Keys of an input method. While a person composes a text, such as Chinese or Japanese, keys choose and confirm the text, and must not
 * do anything else.
 */

/** The `keyCode` of a key that the input method handles. In Safari, the key that ends the composition has only this sign. */
const HANDLED_BY_INPUT_METHOD = 229;

/** Hides keys of an input method from all other listeners. Call this function before others listen for keys. */
export function hideComposingKeys(target: Pick<Window, 'addEventListener'>): void {
  const hide = (event: KeyboardEvent) => {
    if (event.isComposing || event.keyCode === HANDLED_BY_INPUT_METHOD) event.stopImmediatePropagation();
  };
  target.addEventListener('keydown', hide, { capture: true });
}
