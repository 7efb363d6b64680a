/** Items for texts that were stored in parts, and for texts that are not stored yet. */

import type { Continuation } from './message-part.ts';
import { addSeq, partKey, type TextItem, type TimelineItem } from './timeline-item.ts';
import type { LiveText } from './unstored-messages.ts';

/** Shown in place of missing text. */
const GAP = '…';

/** Returns the item of a live text. */
export function toTextItem({ id, kind, pieces }: LiveText): TextItem {
  const isTail = (pieces[0]?.start ?? 0) > 0;
  const text = pieces.map((piece) => piece.text).join(`\n${GAP}\n`);
  return { kind, key: partKey(id, 0), text: isTail ? `${GAP}${text}` : text, createdAt: Infinity, isLive: true, isTail };
}

/** Joins texts that were stored in parts. */
export class TextParts {
  /** The texts whose next part has not been added, by the `localId` of the next part. */
  #unfinished = new Map<string, { item: TextItem; continuation: Continuation }>();

  /** Appends a part to the text that it continues. Returns the part as a new item if it continues no text. */
  add(localId: string | null, item: TextItem, continuation?: Continuation): TextItem | null {
    const previous = localId === null ? undefined : this.#unfinished.get(localId);
    const joined = previous && joinParts(previous.item, previous.continuation, item);
    const target = previous && joined !== undefined ? Object.assign(previous.item, { text: joined, isLive: item.isLive ?? false }) : item;
    if (target !== item && item.seq !== undefined) addSeq(target, item.seq);
    if (target !== item && item.cut) target.cut = [...(target.cut ?? []), ...item.cut];
    if (previous && target === previous.item) this.#unfinished.delete(previous.continuation.localId);
    if (continuation) this.#unfinished.set(continuation.localId, { item: target, continuation });
    return target === item ? item : null;
  }

  /** Marks an item as live if its next part has not been added. */
  markLive(item: TimelineItem | undefined): void {
    for (const unfinished of this.#unfinished.values()) if (unfinished.item === item) unfinished.item.isLive = true;
  }
}

/** Joins the texts of two parts. Returns undefined if the second part does not continue the first. */
function joinParts(first: TextItem, { end, start }: Continuation, second: TextItem): string | undefined {
  if (first.kind !== second.kind || !first.text.endsWith(end)) return undefined;
  const text = first.text.slice(0, first.text.length - end.length);
  if (second.text.startsWith(start)) return text + second.text.slice(start.length);
  // A live text may still be shorter than `start`, or its beginning may be missing.
  if (second.isLive && start.startsWith(second.text)) return text;
  return second.isTail ? `${text}${second.text}` : undefined;
}
