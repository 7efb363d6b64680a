/**
 * A code that connects a computer. It is shared by all views, and renewed before it expires while a view shows it. A reload of the tab
 * keeps the code, because the hub limits the unused codes of a namespace.
 */

import { signal } from '@preact/signals';
import { readJson } from '../api/read-json.ts';
import { createCode, type DeviceCode, fetchCodeState } from './devices.ts';

/** How long before its end a code is replaced, so that a code that is shown can still be copied and used. */
const RENEW_BEFORE_MS = 60_000;
const RETRY_MS = 10_000;

/** The session storage key of the code. It is deleted when the tab opens another account. */
const STORAGE_KEY = 'connect-code';

type ConnectCode = Omit<DeviceCode, 'url'>;

/** The current code; null until there is one, and when the hub has created none. */
export const connectCode = signal<ConnectCode | null>(null);

/** Whether the last attempt to create a code has failed. */
export const hasCodeFailed = signal(false);

let creating: Promise<void> | null = null;

const timeLeft = (current: ConnectCode | null) => (current?.expiresAt ?? 0) - RENEW_BEFORE_MS - Date.now();

async function renew(): Promise<void> {
  try {
    const current = connectCode.value ?? readStored();
    const { code, expiresAt, deviceId } = current !== null && (await isUsable(current)) ? current : await createCode();
    connectCode.value = { code, expiresAt, deviceId };
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify(connectCode.value));
    hasCodeFailed.value = false;
  } catch {
    if (connectCode.value !== null && connectCode.value.expiresAt <= Date.now()) connectCode.value = null;
    hasCodeFailed.value = true;
  }
  creating = null;
}

/** Returns the code that the tab had before its reload, or null. A code of an earlier version has no `deviceId`. */
function readStored(): ConnectCode | null {
  const stored = readJson<ConnectCode>(sessionStorage, STORAGE_KEY);
  return stored?.deviceId ? stored : null;
}

/** Whether a code was neither used nor deleted, and does not expire soon. */
const isUsable = async (current: ConnectCode): Promise<boolean> => timeLeft(current) > 0 && (await fetchCodeState(current)) === 'unused';

/**
 * Keeps a valid code while the page is visible. When the page becomes visible, checks whether the code is still valid: a device may have been
 * revoked on another page. Returns a function that ends this.
 */
export function keepConnectCode(): () => void {
  let timer: ReturnType<typeof setTimeout>;
  let isEnded = false;
  const check = async () => {
    clearTimeout(timer);
    if (document.visibilityState !== 'visible') return;
    await (creating ??= renew());
    if (!isEnded) timer = setTimeout(check, Math.max(timeLeft(connectCode.value), RETRY_MS));
  };
  document.addEventListener('visibilitychange', check);
  void check();
  return () => {
    isEnded = true;
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', check);
  };
}

/** Drops the code because a computer may have used it, or the hub has deleted it. */
export function dropConnectCode(): void {
  connectCode.value = null;
  sessionStorage.removeItem(STORAGE_KEY);
}
