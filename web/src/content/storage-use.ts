/** The storage of a namespace as text. */

import { formatSize } from './file-size.ts';

/** From this share on, storage counts as nearly full, as in the hub. */
const NEARLY_FULL = 0.9;

export interface StorageUse {
  text: string;
  /** The used share of the quota, from 0 to 1; undefined without a quota. */
  share?: number;
  isNearlyFull: boolean;
}

/** Describes how much of its quota a namespace uses. */
export function describeStorage({ bytes, maxBytes }: { bytes: number; maxBytes?: number | undefined }): StorageUse {
  if (!maxBytes) return { text: formatSize(bytes), isNearlyFull: false };
  const share = Math.min(bytes / maxBytes, 1);
  return { text: `${formatSize(bytes)} of ${formatSize(maxBytes)}`, share, isNearlyFull: share >= NEARLY_FULL };
}
