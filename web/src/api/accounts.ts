/**
 * The accounts of this browser. An account is a namespace of the hub with this browser's token. The browser's storage has one key per
 * account, so that two tabs that add and remove different accounts do not overwrite each other.
 */

import { isDeviceToken, isValidNamespace, namespaceOf } from './access-token.ts';
import { randomId } from './ids.ts';
import { readJson } from './read-json.ts';

export interface Account {
  namespace: string;
  /** The token of this browser's device, or an access token of the namespace. */
  token: string;
  /** The random id that this browser sends to the hub with its connections. Each account has an id of its own, so that namespaces cannot be linked. */
  device: string;
  /** Unix milliseconds. */
  addedAt: number;
  /** Whether notifications are on in this browser. Absent if that is unknown: the account was stored by an earlier version. */
  notifies?: boolean;
}

/** The number is the version of the stored format. */
const PREFIX = 'account-1 ';
/** The key of the namespace that was opened last. A new tab opens this namespace. */
const LAST_KEY = 'last-account';

/** Returns the key of the drafts of an account that were not in the database yet when a page was closed. */
export const draftsKey = (namespace: string) => `drafts ${namespace}`;

/** The keys of earlier versions, which had only one account. */
const TOKEN_KEY_0 = 'access-token';
const NAMESPACE_KEY_0 = 'access-namespace';
const DEVICE_KEY_0 = 'device';

export class Accounts {
  #storage: Storage;
  #now: () => number;

  constructor(storage: Storage, now = Date.now) {
    this.#storage = storage;
    this.#now = now;
    this.#importEarlierVersion();
  }

  /** Returns all accounts, in the order in which they were added. */
  all(): Account[] {
    const keys = Array.from({ length: this.#storage.length }, (_, index) => this.#storage.key(index) ?? '');
    return keys
      .flatMap((key) => (key.startsWith(PREFIX) ? (this.get(key.slice(PREFIX.length)) ?? []) : []))
      .sort((a, b) => a.addedAt - b.addedAt || (a.namespace < b.namespace ? -1 : 1));
  }

  get(namespace: string): Account | null {
    const stored = readJson<Account>(this.#storage, PREFIX + namespace);
    const isValid = typeof stored?.token === 'string' && typeof stored.device === 'string' && typeof stored.addedAt === 'number';
    return isValid ? { ...stored, namespace } : null;
  }

  /** Adds an account. If the browser has the account already, replaces its token. */
  add(namespace: string, token: string): void {
    this.#write({ device: randomId(), addedAt: this.#now(), notifies: false, ...this.get(namespace), namespace, token });
  }

  /** Stores whether notifications are on for an account. Does nothing if the account was removed. */
  setNotifies(namespace: string, notifies: boolean): void {
    const account = this.get(namespace);
    if (account && account.notifies !== notifies) this.#write({ ...account, notifies });
  }

  remove(namespace: string): void {
    for (const key of [PREFIX + namespace, draftsKey(namespace)]) this.#storage.removeItem(key);
    if (this.#storage.getItem(LAST_KEY) === namespace) this.#storage.removeItem(LAST_KEY);
    if (this.#readEarlierVersion()?.namespace === namespace)
      for (const key of [TOKEN_KEY_0, NAMESPACE_KEY_0, DEVICE_KEY_0]) this.#storage.removeItem(key);
  }

  /**
   * Returns the account that a tab opens: the preferred account, or else the account that was last opened in any tab, or else the first
   * account. Null without accounts.
   */
  choose(preferred: string | null): Account | null {
    const candidates = [preferred, this.#storage.getItem(LAST_KEY)];
    const found = candidates.map((name) => name !== null && this.get(name)).find((account) => account);
    return found || (this.all()[0] ?? null);
  }

  setLast(namespace: string): void {
    this.#storage.setItem(LAST_KEY, namespace);
  }

  /** Stores an account. No other method writes accounts. */
  #write({ namespace, ...stored }: Account): void {
    this.#storage.setItem(PREFIX + namespace, JSON.stringify(stored));
  }

  /**
   * Copies the account of an earlier version. Its keys stay until the account is removed: when they change, an open tab of the earlier
   * version signs out and deletes the drafts of all accounts.
   */
  #importEarlierVersion(): void {
    const account = this.#readEarlierVersion();
    if (account && isValidNamespace(account.namespace) && this.get(account.namespace) === null) this.#write(account);
  }

  #readEarlierVersion(): Account | null {
    const token = this.#storage.getItem(TOKEN_KEY_0);
    if (token === null) return null;
    const namespace = isDeviceToken(token) ? (this.#storage.getItem(NAMESPACE_KEY_0) ?? '') : namespaceOf(token);
    return { namespace, token, device: this.#storage.getItem(DEVICE_KEY_0) ?? randomId(), addedAt: this.#now() };
  }
}
