/**
 * Formats times for display. Browsers take tens of milliseconds to load the data of a locale, so a formatter is created when it is needed
 * first, and ages are formatted without one.
 */

import { describeDay } from '../content/rows.ts';
import { once } from '../content/once.ts';
import { now } from './current-time.ts';

const UNITS: [unit: string, ms: number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
];

/** Formats a Unix time in milliseconds relative to now, such as "3m ago". Views with such a text update by themselves. */
export function formatAge(time: number): string {
  const age = now.value - time;
  const [unit, ms] = UNITS.find(([, unitMs]) => age >= unitMs) ?? ['m', 60_000];
  const count = Math.floor(age / ms);
  if (count <= 0) return 'now';
  return unit === 'd' && count === 1 ? 'yesterday' : `${count}${unit} ago`;
}

const createFormat = (options: Intl.DateTimeFormatOptions) => once(() => new Intl.DateTimeFormat(undefined, options));
const timeOfDay = createFormat({ hour: '2-digit', minute: '2-digit' });
const dayAndTime = createFormat({ day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });

let lastMinute = { minute: NaN, text: '' };

/** Formats a Unix time in milliseconds as a time of day, such as "14:05". Caches the text, because consecutive messages are often of the same minute. */
export function formatTimeOfDay(time: number): string {
  const minute = Math.floor(time / 60_000);
  if (minute !== lastMinute.minute) lastMinute = { minute, text: timeOfDay().format(time) };
  return lastMinute.text;
}

const dayOfThisYear = createFormat({ weekday: 'long', day: 'numeric', month: 'long' });
const dayOfAnyYear = createFormat({ weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' });

/** Formats the day of a Unix time in milliseconds, such as "Today" or "Tuesday, 3 May", with the year if it is not this year. */
export const formatDay = (time: number): string =>
  describeDay(time, now.value, (day) =>
    (new Date(day).getFullYear() === new Date(now.value).getFullYear() ? dayOfThisYear : dayOfAnyYear)().format(day),
  );

/** Formats a Unix time in milliseconds: a time of today as "14:05", any other time as "3 May, 14:05". */
export function formatTime(time: number): string {
  const isToday = new Date(time).toDateString() === new Date(now.value).toDateString();
  return (isToday ? timeOfDay : dayAndTime)().format(time);
}

const fullDate = createFormat({
  ...({ year: 'numeric', month: 'numeric', day: 'numeric' } as const),
  ...({ hour: 'numeric', minute: 'numeric', second: 'numeric' } as const),
});

/** Formats a Unix time in milliseconds with the date and seconds, such as "3/5/2026, 14:05:00". */
export const formatFullTime = (time: number): string => fullDate().format(time);

/** Formats a count with separators, such as "50,000". */
export const formatCount = (count: number): string => count.toLocaleString('en');
