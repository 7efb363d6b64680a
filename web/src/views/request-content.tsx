/** The scrollable content of a pending request. */

import { ChevronDown } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

/** The "More below" button appears only if more than this height is hidden. */
const HIDDEN_TOLERANCE_PX = 8;

/** Shows a button while content below is hidden, because some phones show no scroll bar. `label`: the accessible name of the content. */
export function RequestContent({ label, children }: { label: string; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const [hasMoreBelow, setHasMoreBelow] = useState(false);
  const measure = () => {
    const { scrollHeight = 0, scrollTop = 0, clientHeight = 0 } = box.current ?? {};
    setHasMoreBelow(scrollHeight - scrollTop - clientHeight > HIDDEN_TOLERANCE_PX);
  };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(measure);
    for (const { current } of [box, content]) if (current) observer.observe(current);
    return () => observer.disconnect();
  }, []);
  const scrollDown = () => box.current?.scrollBy({ top: box.current.clientHeight * 0.8 });
  return (
    <div class="request-content">
      <div class="request-input" tabIndex={0} role="region" aria-label={label} ref={box} onScroll={measure}>
        <div ref={content}>{children}</div>
      </div>
      {hasMoreBelow && (
        <button type="button" class="button request-more" onClick={scrollDown}>
          <ChevronDown size={16} aria-hidden /> More below
        </button>
      )}
    </div>
  );
}
