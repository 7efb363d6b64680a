/** Small things that many views use. */

import { RotateCw } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import type { Reading } from '../state/types.ts';
import { now } from './clock.ts';

/** Grey lines in place of what is being read. */
export function Skeleton({ lines = 4, label }: { lines?: number; label: string }) {
  const widths = ['78%', '52%', '66%', '40%', '72%', '58%'];
  return (
    <div class="stack" role="status" aria-label={label}>
      {Array.from({ length: lines }, (_, at) => (
        <div key={at} class="skeleton" style={{ width: widths[at % widths.length] }} />
      ))}
    </div>
  );
}

/** Says that something could not be read, and offers to try again. */
export function Failure({ text, onRetry }: { text: string; onRetry: () => void }) {
  return (
    <div class="notice danger" role="alert">
      <span>{text}</span>
      <button type="button" class="button" onClick={onRetry}>
        <RotateCw size={16} aria-hidden /> Try again
      </button>
    </div>
  );
}

/** What was read, or how far reading it has come. */
export function Read({ reading, label, onRetry, children }: { reading: Reading; label: string; onRetry: () => void; children: ComponentChildren }) {
  if (reading.status === 'failed') return <Failure text={reading.error} onRetry={onRetry} />;
  if (reading.status !== 'ready') return <Skeleton label={label} lines={6} />;
  return <>{children}</>;
}

const UNITS: [unit: Intl.RelativeTimeFormatUnit, ms: number][] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
];

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'narrow' });

/** A time as a person says it, such as "3 min ago". */
export function ago(time: number): string {
  const age = now.value - time;
  const [unit, ms] = UNITS.find(([, one]) => age >= one) ?? ['minute', 60_000];
  const count = Math.floor(age / ms);
  return count <= 0 ? 'now' : relative.format(-count, unit);
}

/** A size in bytes as a person says it. */
export function sizeOf(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${(bytes / 1000).toFixed(1)} KB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** A path with the home directory as `~`. */
export function shortPath(path: string, homeDir?: string): string {
  const home = homeDir ?? /^(\/home\/[^/]+|\/Users\/[^/]+|\/root)(?=\/|$)/.exec(path)?.[0];
  return home && (path === home || path.startsWith(`${home}/`)) ? `~${path.slice(home.length)}` : path;
}
