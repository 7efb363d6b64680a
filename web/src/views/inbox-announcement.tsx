/** Announces to screen readers which item of the inbox stopped waiting, and why. */

import type { ShownItem } from '../state/inbox.ts';
import { departureOf, titleOf } from './inbox-row.tsx';

export function InboxAnnouncement({ shown }: { shown: readonly ShownItem[] }) {
  const left = shown.filter(({ leftAt }) => leftAt !== null).sort((a, b) => (b.leftAt ?? 0) - (a.leftAt ?? 0))[0];
  return (
    <p class="visually-hidden" role="status">
      {left && `${titleOf(left.item)}: ${departureOf(left.item)}`}
    </p>
  );
}
