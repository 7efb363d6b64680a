/**
 * Notices below the list of sessions: the storage of the account is nearly full, a message to a session that is not listed was not sent, or the
 * browser has ended the notifications.
 */

import { AlertTriangle, BellOff, Database } from 'lucide-preact';
import { Link } from 'wouter-preact';
import { isPushLost, isStorageShort, storage, unlistedFailureId } from '../state/store.ts';

export function ListNotices() {
  const id = unlistedFailureId.value;
  return (
    <>
      {isStorageShort.value && <StorageNotice />}
      {isPushLost.value && <PushNotice />}
      {id !== undefined && (
        <p class="notice danger">
          <AlertTriangle size={16} />
          <span>
            A message was not sent, because its session is archived or deleted. <Link href={`/sessions/${id}`}>Show it</Link>
          </span>
        </p>
      )}
    </>
  );
}

export function PushNotice() {
  return (
    <p class="notice warn">
      <BellOff size={16} />
      <span>
        This browser has ended your notifications. Turn them on again in the <Link href="/settings">settings</Link>.
      </span>
    </p>
  );
}

function StorageNotice() {
  const { bytes, maxBytes } = storage.value;
  const isFull = bytes >= maxBytes;
  const advice = 'Delete sessions that are no longer needed, for example';
  return (
    <p class={isFull ? 'notice danger' : 'notice warn'}>
      <Database size={16} />
      <span>
        {isFull
          ? 'The storage is full: new messages wait or are refused. '
          : `The storage is nearly full: ${Math.floor((bytes / maxBytes) * 100)} % is used. `}
        {advice} <Link href="/archive">in the archive</Link>.
      </span>
    </p>
  );
}
