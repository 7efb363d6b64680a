/** Locks between the tabs of a browser: the Web Locks API, or leases in the database for pages without that API (without HTTPS). */

import { randomId } from '../api/ids.ts';
import type { Database } from './database.ts';

/** A tab steals a lock after this time, because a frozen tab may keep a lock. No request takes this long. */
const STEAL_AFTER_MS = 80_000;
/** A lease expires after this time without a renewal: the tab that holds the lease was closed or is frozen. */
const LEASE_DURATION_MS = 10_000;
const RENEW_INTERVAL_MS = 3000;

/** Runs an operation while this tab holds a lock. If another tab holds the lock, returns false and does not run the operation. */
export type TryWithLock = (name: string, operation: () => Promise<void>) => Promise<boolean>;

/**
 * Creates the locks of this tab.
 * @param database stores the leases
 */
export function createTabLocks(database: Promise<Database>): TryWithLock {
  return 'locks' in navigator ? createWebLocks(navigator.locks) : createLeases(database);
}

function createWebLocks(locks: LockManager): TryWithLock {
  /** By name of a lock that another tab holds: when this tab first failed to get the lock. */
  const heldSince = new Map<string, number>();
  return async (name, operation) => {
    const since = heldSince.get(name);
    const options = since !== undefined && Date.now() - since > STEAL_AFTER_MS ? { steal: true } : { ifAvailable: true };
    let running: Promise<void> | undefined;
    try {
      await locks.request(name, options, (lock) => lock && (running = operation()));
    } catch {
      // There are two possible reasons:
      // - Another tab stole the lock while the operation was running. The operation continues: the hub stores a message only once.
      // - The browser refuses locks. The operation runs without a lock.
      running ??= operation();
    }
    await running;
    if (running) heldSince.delete(name);
    else heldSince.set(name, since ?? Date.now());
    return running !== undefined;
  };
}

interface Lease {
  holder: string;
  /** Unix milliseconds. */
  expiresAt: number;
}

export function createLeases(database: Promise<Database>, now = Date.now): TryWithLock {
  const holder = randomId();
  // A lease that expires later than in LEASE_DURATION_MS is not valid: it was written before the clock was set back.
  const isValid = ({ expiresAt }: Lease) => expiresAt > now() && expiresAt <= now() + LEASE_DURATION_MS;
  const take = (lease: Lease | undefined): Lease =>
    lease && lease.holder !== holder && isValid(lease) ? lease : { holder, expiresAt: now() + LEASE_DURATION_MS };
  const release = (lease: Lease | undefined) => (lease?.holder === holder ? undefined : lease);
  return async (name, operation) => {
    const records = await database;
    // Without a working database the tabs share no messages, so no lock is needed.
    const lease = await records.update<Lease>('lease', name, take).catch(() => undefined);
    if (lease && lease.holder !== holder) return false;
    const renewal = setInterval(() => void records.update<Lease>('lease', name, take).catch(() => {}), RENEW_INTERVAL_MS);
    try {
      await operation();
    } finally {
      clearInterval(renewal);
      await records.update<Lease>('lease', name, release).catch(() => {});
    }
    return true;
  };
}
