/** Formats times, sizes and paths for display. */

import { now } from './current-time.ts';

const UNITS: [unit: Intl.RelativeTimeFormatUnit, ms: number][] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
];

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'narrow' });

/** Formats a Unix time in milliseconds relative to now, such as "3 min ago". Views that use it update by themselves. */
export function formatAge(time: number): string {
  const age = now.value - time;
  const [unit, ms] = UNITS.find(([, unitMs]) => age >= unitMs) ?? ['minute', 60_000];
  const count = Math.floor(age / ms);
  return count <= 0 ? 'now' : relative.format(-count, unit);
}

/** Formats a size in bytes, such as "3.0 MB". */
export function formatSize(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${(bytes / 1000).toFixed(1)} KB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Replaces the home directory in a path by `~`. Without `homeDir` it is guessed from the path. */
export function shortenPath(path: string, homeDir?: string): string {
  const home = homeDir ?? /^(\/home\/[^/]+|\/Users\/[^/]+|\/root)(?=\/|$)/.exec(path)?.[0];
  return home && (path === home || path.startsWith(`${home}/`)) ? `~${path.slice(home.length)}` : path;
}
