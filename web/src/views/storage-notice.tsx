/** A notice in the list of sessions when the storage of the account is nearly full. */

import { Database } from 'lucide-preact';
import { Link } from 'wouter-preact';
import { storage } from '../state/store.ts';

export default function StorageNotice() {
  const { bytes, maxBytes } = storage.value;
  const isFull = bytes >= maxBytes;
  const advice = 'Delete sessions that are no longer needed, for example';
  return (
    <p class={isFull ? 'notice danger' : 'notice warn'}>
      <Database size={16} aria-hidden />
      <span>
        {isFull
          ? 'The storage is full: new messages wait or are refused. '
          : `The storage is nearly full: ${Math.floor((bytes / maxBytes) * 100)} % is used. `}
        {advice} <Link href="/archive">in the archive</Link>.
      </span>
    </p>
  );
}
