/** The scrollable content of a pending request. */

import { ChevronDown } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import { type MutableRef, useLayoutEffect, useRef, useState } from 'preact/hooks';

/** Up to this height, hidden content is ignored. */
const HIDDEN_TOLERANCE_PX = 8;

interface Props {
  /** The accessible name of the content. */
  label: string;
  /** Returns true if all content has been in view. Otherwise shows more of the content, and returns false. */
  allSeenOrShowMore: MutableRef<() => boolean>;
  children: ComponentChildren;
}

/** While content is hidden below the visible part, shows a button that scrolls down: some phones show no scroll bar. */
export function RequestContent({ label, allSeenOrShowMore, children }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  /** The height of the content that has been in view, from its start. */
  const seenHeight = useRef(0);
  const [hasMoreBelow, setHasMoreBelow] = useState(false);
  const measure = () => {
    const { scrollHeight = 0, scrollTop = 0, clientHeight = 0 } = box.current ?? {};
    // A jump to the end does not show what is between.
    if (scrollTop <= seenHeight.current) seenHeight.current = Math.max(seenHeight.current, scrollTop + clientHeight);
    setHasMoreBelow(scrollHeight - scrollTop - clientHeight > HIDDEN_TOLERANCE_PX);
  };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(measure);
    for (const { current } of [box, content]) if (current) observer.observe(current);
    return () => observer.disconnect();
  }, []);
  const scrollDown = () => box.current?.scrollBy({ top: box.current.clientHeight * 0.8 });
  allSeenOrShowMore.current = () => {
    const element = box.current;
    if (!element) return false;
    const incomplete = element.querySelector<HTMLElement>('[data-incomplete]');
    const { top, bottom } = element.getBoundingClientRect();
    if (top < 0 || bottom > innerHeight) element.scrollIntoView({ block: 'center' });
    else if (incomplete) incomplete.focus();
    else if (element.scrollHeight - seenHeight.current > HIDDEN_TOLERANCE_PX)
      element.scrollTo({ top: seenHeight.current - 0.2 * element.clientHeight });
    else return true;
    return false;
  };
  return (
    <div class="request-content">
      <div class="request-input" tabIndex={0} role="region" aria-label={label} ref={box} onScroll={measure}>
        <div ref={content}>{children}</div>
      </div>
      {hasMoreBelow && (
        <button type="button" class="button request-more" onClick={scrollDown}>
          <ChevronDown size={16} /> More below
        </button>
      )}
    </div>
  );
}
