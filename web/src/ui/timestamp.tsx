/** The time of a list item. */

import { useContext } from 'preact/hooks';
import { formatFullTime, formatTimeOfDay } from './format.ts';
import { ListItem } from './list-item.ts';

/** Adds the tooltip only when it is needed: a date takes long to format, and a conversation mounts many times while it is scrolled. */
function showFullTime(element: HTMLElement, time: number): void {
  element.title = formatFullTime(time);
}

/** Shows the time of day of the list item around it, with the full date as a tooltip. Renders nothing outside of a list. */
export function ItemTimestamp() {
  const { time } = useContext(ListItem);
  if (time === null) return null;
  return (
    <time class="timestamp" dateTime={new Date(time).toISOString()} onPointerEnter={(event) => showFullTime(event.currentTarget, time)}>
      {formatTimeOfDay(time)}
    </time>
  );
}
