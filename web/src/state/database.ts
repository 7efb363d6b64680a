/**
 * The browser's database (IndexedDB): data that survives the page, by namespace. Without IndexedDB, for example in some private
 * windows, the data is kept in memory.
 */

import { firstConnection, openConnection, STORE, withTimeout } from './database-connection.ts';

/**
 * `outbox`: unsent messages. `draft`: texts that are being written. `list`: the last loaded list of sessions. `conversation`: the newest
 * messages of the sessions that were opened last. `reading`: where the user reads each session. `lease`: locks between tabs.
 */
export type RecordKind = 'outbox' | 'draft' | 'list' | 'conversation' | 'reading' | 'lease';

/** The data of one namespace. A method rejects if the browser cannot complete the operation, for example because the disk is full. */
export interface Database {
  /** Whether the data survives the page. */
  readonly isDurable: boolean;
  getAll(kind: RecordKind): Promise<[id: string, value: unknown][]>;
  /** Returns a record; `undefined` if there is none. */
  get<T>(kind: RecordKind, id: string): Promise<T | undefined>;
  /** Adds a record, or replaces the record with the same id. */
  put(kind: RecordKind, id: string, value: unknown): Promise<void>;
  delete(kind: RecordKind, id: string): Promise<void>;
  /** Replaces a record by the result of `change` in one transaction; `undefined` deletes the record. Returns the new value. */
  update<T>(kind: RecordKind, id: string, change: (value: T | undefined) => T | undefined): Promise<T | undefined>;
}

/** Opens the data of a namespace. */
export async function openDatabase(namespace: string): Promise<Database> {
  try {
    return new IndexedDatabase(namespace, await firstConnection);
  } catch (error) {
    console.warn('This browser stores neither drafts nor unsent messages.', error);
    return new MemoryDatabase();
  }
}

/** Deletes the data of a namespace. */
export const deleteRecords = (namespace: string): Promise<void> =>
  withConnection('readwrite', (store) => void store.delete(IDBKeyRange.bound([namespace], [namespace, AFTER_ALL])));

/** Deletes the data of the namespaces that are not signed in, which an interrupted sign-out may have left. */
export const deleteRecordsExcept = (isSignedIn: (namespace: string) => boolean): Promise<void> =>
  withConnection('readwrite', (store) => {
    const request = store.getAllKeys();
    request.onsuccess = () => {
      for (const key of request.result as string[][]) if (key[0] !== SHARED && !isSignedIn(key[0] ?? '')) store.delete(key);
    };
  });

/** Returns the number of unsent messages by namespace. */
export async function countUnsent(): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  await withConnection('readonly', (store) => {
    const request = store.getAllKeys();
    request.onsuccess = () => {
      const kind: RecordKind = 'outbox';
      for (const [namespace = '', keyKind] of request.result as string[][])
        if (keyKind === kind) counts.set(namespace, (counts.get(namespace) ?? 0) + 1);
    };
  });
  return counts;
}

/** The first part of the key of the record for the service worker, instead of a namespace. No namespace has this name. */
const SHARED = '';

/** Stores the namespaces of all accounts for the service worker (`sw.ts`), which cannot read `localStorage`. */
export const putAccountNames = (names: string[]): Promise<void> =>
  withConnection('readwrite', (store) => void store.put(names, [SHARED, 'accounts', 'names']));

async function withConnection(mode: IDBTransactionMode, operate: (store: IDBObjectStore) => void): Promise<void> {
  const connection = await openConnection();
  try {
    await runTransaction(connection, mode, operate);
  } finally {
    connection.close();
  }
}

/** The upper bound of a part of a key: IndexedDB sorts arrays after all strings. */
const AFTER_ALL: string[] = [];

class IndexedDatabase implements Database {
  readonly isDurable = true;
  #namespace: string;
  #connection: IDBDatabase | null;

  constructor(namespace: string, connection: IDBDatabase) {
    this.#namespace = namespace;
    this.#connection = connection;
  }

  async getAll(kind: RecordKind): Promise<[id: string, value: unknown][]> {
    const range = IDBKeyRange.bound([this.#namespace, kind], [this.#namespace, kind, AFTER_ALL]);
    let keys: IDBRequest<IDBValidKey[]> | undefined;
    let values: IDBRequest<unknown[]> | undefined;
    // Not with a cursor, which needs an event for each record.
    await this.#run('readonly', (store) => {
      keys = store.getAllKeys(range);
      values = store.getAll(range);
    });
    return (keys?.result ?? []).map((key, index) => [String((key as string[])[2]), values?.result[index]]);
  }

  async get<T>(kind: RecordKind, id: string): Promise<T | undefined> {
    let request: IDBRequest<T | undefined> | undefined;
    await this.#run('readonly', (store) => {
      request = store.get(this.#key(kind, id));
    });
    return request?.result;
  }

  async put(kind: RecordKind, id: string, value: unknown): Promise<void> {
    await this.#run('readwrite', (store) => committed(store.put(value, this.#key(kind, id))));
  }

  async delete(kind: RecordKind, id: string): Promise<void> {
    await this.#run('readwrite', (store) => committed(store.delete(this.#key(kind, id))));
  }

  async update<T>(kind: RecordKind, id: string, change: (value: T | undefined) => T | undefined): Promise<T | undefined> {
    const key = this.#key(kind, id);
    let changed: T | undefined;
    await this.#run('readwrite', (store) => {
      const request = store.get(key) as IDBRequest<T | undefined>;
      request.onsuccess = () => {
        changed = change(request.result);
        if (changed === undefined) store.delete(key);
        else store.put(changed, key);
      };
    });
    return changed;
  }

  #key(kind: RecordKind, id: string): string[] {
    return [this.#namespace, kind, id];
  }

  async #run(mode: IDBTransactionMode, operate: (store: IDBObjectStore) => void): Promise<void> {
    if (this.#connection) {
      try {
        return await runTransaction(this.#connection, mode, operate);
      } catch (error) {
        // iOS closes the connection of a page in the background. `onversionchange` closes the connection before a change of the schema.
        if (!(error instanceof DOMException && error.name === 'InvalidStateError')) throw error;
      }
    }
    this.#connection = null;
    this.#connection = await openConnection();
    return runTransaction(this.#connection, mode, operate);
  }
}

/** The data of this page in memory, for a browser without a database. */
export class MemoryDatabase implements Database {
  readonly isDurable: boolean = false;
  #records = new Map<RecordKind, Map<string, unknown>>();

  #recordsOf(kind: RecordKind): Map<string, unknown> {
    const records = this.#records.get(kind) ?? new Map<string, unknown>();
    this.#records.set(kind, records);
    return records;
  }

  async getAll(kind: RecordKind): Promise<[id: string, value: unknown][]> {
    return [...this.#recordsOf(kind)];
  }

  async get<T>(kind: RecordKind, id: string): Promise<T | undefined> {
    return this.#recordsOf(kind).get(id) as T | undefined;
  }

  async put(kind: RecordKind, id: string, value: unknown): Promise<void> {
    this.#recordsOf(kind).set(id, value);
  }

  async delete(kind: RecordKind, id: string): Promise<void> {
    this.#recordsOf(kind).delete(id);
  }

  async update<T>(kind: RecordKind, id: string, change: (value: T | undefined) => T | undefined): Promise<T | undefined> {
    const changed = change(this.#recordsOf(kind).get(id) as T | undefined);
    if (changed === undefined) this.#recordsOf(kind).delete(id);
    else this.#recordsOf(kind).set(id, changed);
    return changed;
  }
}

/**
 * Commits the transaction of its only request at once. Without this, the page commits after the request has succeeded, and the write is
 * lost if the page is closed before that.
 */
function committed(request: IDBRequest): IDBRequest {
  request.transaction?.commit();
  return request;
}

/** Runs an operation in its own transaction, and waits until the transaction is committed. */
function runTransaction(connection: IDBDatabase, mode: IDBTransactionMode, operate: (store: IDBObjectStore) => void): Promise<void> {
  return withTimeout((resolve, reject) => {
    const transaction = connection.transaction(STORE, mode);
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error);
    operate(transaction.objectStore(STORE));
  });
}
