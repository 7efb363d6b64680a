/** Lines that unfold. */

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';

/** What a person has unfolded: the list forgets items that are out of sight. */
const unfolded = signal<ReadonlySet<string>>(new Set());

/** A line that unfolds. Its content is made only then. */
export function Fold(props: { id: string; icon: ComponentChildren; title: string; detail?: string; isBad?: boolean; end?: ComponentChildren; children: ComponentChildren }) {
  const { id, icon, title, detail, isBad, end, children } = props;
  const isOpen = unfolded.value.has(id);
  const onToggle = (open: boolean) => {
    if (open === unfolded.value.has(id)) return;
    const next = new Set(unfolded.value);
    if (open) next.add(id);
    else next.delete(id);
    unfolded.value = next;
  };
  return (
    <details class={isBad ? 'fold bad' : 'fold'} open={isOpen} onToggle={({ currentTarget }) => onToggle(currentTarget.open)}>
      <summary>
        {icon}
        <span class="fold-title ellipsis">{title}</span>
        {detail && <span class="mono ellipsis fold-detail">{detail}</span>}
        {end}
      </summary>
      {isOpen && <div class="fold-body">{children}</div>}
    </details>
  );
}
