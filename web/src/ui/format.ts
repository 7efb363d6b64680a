/** Formats times for display. */

import { now } from './current-time.ts';

const UNITS: [unit: Intl.RelativeTimeFormatUnit, ms: number][] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
];

const relativeTime = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'narrow' });

/** Formats a Unix time in milliseconds relative to now, such as "3 min ago". Views with such a text update by themselves. */
export function formatAge(time: number): string {
  const age = now.value - time;
  const [unit, ms] = UNITS.find(([, unitMs]) => age >= unitMs) ?? ['minute', 60_000];
  const count = Math.floor(age / ms);
  return count <= 0 ? 'now' : relativeTime.format(-count, unit);
}

const timeOfDay = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const dayAndTime = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });

/** Formats a Unix time in milliseconds: a time of today as "14:05", any other time as "3 May, 14:05". */
export function formatTime(time: number): string {
  const isToday = new Date(time).toDateString() === new Date(now.value).toDateString();
  return (isToday ? timeOfDay : dayAndTime).format(time);
}

/** Formats a count with separators, such as "50,000". */
export const formatCount = (count: number): string => count.toLocaleString('en');
