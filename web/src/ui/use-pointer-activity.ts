/** Detects whether the user is about to touch or click something in an element. */

import type { RefObject } from 'preact';
import { useEffect, useState } from 'preact/hooks';

/** An element is active for this long after its last scrolling or movement of the pointer. */
const IDLE_MS = 3000;

/** Returns whether a pointer is down in an element, or has moved or scrolled there recently. Meanwhile, its content must not move. */
export function usePointerActivity(element: RefObject<HTMLElement>): boolean {
  const [isActive, setActive] = useState(false);
  useEffect(() => {
    const { current } = element;
    if (!current) return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isDown = false;
    const onActivity = ({ type }: Event) => {
      if (type === 'pointerdown') isDown = true;
      clearTimeout(timer);
      setActive(true);
      if (!isDown) timer = setTimeout(() => setActive(false), IDLE_MS);
    };
    // On the window, because the pointer may be released outside of the element. A touch that begins to scroll is canceled.
    const onRelease = (event: Event) => {
      if (!isDown) return;
      isDown = false;
      onActivity(event);
    };
    for (const name of ['pointerdown', 'pointermove', 'scroll']) current.addEventListener(name, onActivity, { passive: true });
    for (const name of ['pointerup', 'pointercancel']) addEventListener(name, onRelease);
    return () => {
      clearTimeout(timer);
      for (const name of ['pointerdown', 'pointermove', 'scroll']) current.removeEventListener(name, onActivity);
      for (const name of ['pointerup', 'pointercancel']) removeEventListener(name, onRelease);
    };
  }, []);
  return isActive;
}
