/** Collapsible content below a summary line. */

import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { ItemTimestamp } from './timestamp.tsx';
import { useExpanded, WHOLE_ITEM } from './expanded.ts';

interface Props {
  icon: ComponentChildren;
  title: string;
  detail?: ComponentChildren;
  isFailed?: boolean;
  trailing?: ComponentChildren;
  /** Shown below the summary while collapsed. */
  preview?: ComponentChildren;
  /** The label of a button that expands the content, such as "40 more lines". */
  moreLabel?: string;
  children: ComponentChildren;
}

/** A collapsible line. A list item may have only one. The content is rendered only while the line is expanded. */
export function Disclosure({ icon, title, detail, isFailed, trailing, preview, moreLabel, children }: Props) {
  const summary = useRef<HTMLElement>(null);
  const [isOpen, setOpen] = useExpanded(WHOLE_ITEM);
  const toggle = () => setOpen(!isOpen);
  const onSummaryClick = (event: MouseEvent) => {
    // The browser would open `details` some frames before the content is rendered. Meanwhile the list of messages could scroll to its
    // end, so that the summary disappears.
    event.preventDefault();
    toggle();
  };
  const expand = () => {
    toggle();
    // The focused button disappears, so move the focus to the summary.
    summary.current?.focus({ preventScroll: true });
  };
  return (
    <div class={isFailed ? 'disclosure failed' : 'disclosure'}>
      <details open={isOpen}>
        <summary ref={summary} onClick={onSummaryClick}>
          {icon}
          <span class="disclosure-title ellipsis">{title}</span>
          {detail && <span class="mono ellipsis disclosure-detail">{detail}</span>}
          {trailing}
          <ItemTimestamp />
        </summary>
        {isOpen && <div class="disclosure-body">{children}</div>}
      </details>
      {!isOpen && preview}
      {!isOpen && moreLabel && (
        <button type="button" class="button quiet disclosure-more" onClick={expand}>
          … {moreLabel}
        </button>
      )}
    </div>
  );
}
