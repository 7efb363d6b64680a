/** Lines that unfold. */

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';

/** What a person has unfolded: the list forgets items that are out of sight. */
const unfolded = signal<ReadonlySet<string>>(new Set());

interface Props {
  id: string;
  icon: ComponentChildren;
  title: string;
  detail?: string;
  isBad?: boolean;
  end?: ComponentChildren;
  /** What is seen below the line while it is folded. */
  preview?: ComponentChildren;
  /** What else there is, on a button that unfolds. */
  more?: string;
  children: ComponentChildren;
}

/** A line that unfolds. Its content is made only then. */
export function Fold({ id, icon, title, detail, isBad, end, preview, more, children }: Props) {
  const line = useRef<HTMLElement>(null);
  const isOpen = unfolded.value.has(id);
  const onToggle = (open: boolean) => {
    if (open === unfolded.value.has(id)) return;
    const next = new Set(unfolded.value);
    if (open) next.add(id);
    else next.delete(id);
    unfolded.value = next;
  };
  const unfold = () => {
    onToggle(true);
    // The button goes: keys go on from the line, which folds it again.
    line.current?.focus({ preventScroll: true });
  };
  return (
    <div class={isBad ? 'fold bad' : 'fold'}>
      <details open={isOpen} onToggle={({ currentTarget }) => onToggle(currentTarget.open)}>
        <summary ref={line}>
          {icon}
          <span class="fold-title ellipsis">{title}</span>
          {detail && <span class="mono ellipsis fold-detail">{detail}</span>}
          {end}
        </summary>
        {isOpen && <div class="fold-body">{children}</div>}
      </details>
      {!isOpen && preview}
      {!isOpen && more && (
        <button type="button" class="button quiet fold-more" onClick={unfold}>
          … {more}
        </button>
      )}
    </div>
  );
}
