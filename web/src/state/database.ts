/**
 * The browser's database (IndexedDB): data that survives the page, by namespace. Without IndexedDB, for example in some private
 * windows, the data is kept in memory.
 */

/** `outbox`: unsent messages. `draft`: texts that are being written. `list`: the last loaded list of sessions. `lease`: locks between tabs. */
export type RecordKind = 'outbox' | 'draft' | 'list' | 'lease';

/** The data of one namespace. A method rejects if the browser cannot complete the operation, for example because the disk is full. */
export interface Database {
  /** Whether the data survives the page. */
  readonly isDurable: boolean;
  getAll(kind: RecordKind): Promise<[id: string, value: unknown][]>;
  /** Adds a record, or replaces the record with the same id. */
  put(kind: RecordKind, id: string, value: unknown): Promise<void>;
  delete(kind: RecordKind, id: string): Promise<void>;
  /** Replaces a record by the result of `change` in one transaction; `undefined` deletes the record. Returns the new value. */
  update<T>(kind: RecordKind, id: string, change: (value: T | undefined) => T | undefined): Promise<T | undefined>;
}

const NAME = 'console';
const STORE = 'records';

/** Needed because some browsers never complete an operation, for example after the page was in the background. */
const OPERATION_TIMEOUT_MS = 3000;

/** Opens the data of a namespace, and deletes the data of all other namespaces. */
export async function openDatabase(namespace: string): Promise<Database> {
  try {
    const database = new IndexedDatabase(namespace, await openConnection());
    await deleteRecords(namespace);
    return database;
  } catch (error) {
    console.warn('This browser stores neither drafts nor unsent messages.', error);
    return new MemoryDatabase();
  }
}

/** Deletes the data of all namespaces except one. */
export async function deleteRecords(except: string | null): Promise<void> {
  const connection = await openConnection();
  try {
    await runTransaction(connection, 'readwrite', (store) => {
      if (except === null) return store.clear();
      store.delete(IDBKeyRange.upperBound([except], true));
      return store.delete(IDBKeyRange.lowerBound([except, AFTER_ALL], true));
    });
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
    const records: [string, unknown][] = [];
    await this.#run('readonly', (store) => {
      const request = store.openCursor(IDBKeyRange.bound([this.#namespace, kind], [this.#namespace, kind, AFTER_ALL]));
      records.length = 0;
      request.onsuccess = () => {
        const cursor = request.result;
        if (!cursor) return;
        records.push([String((cursor.key as string[])[2]), cursor.value]);
        cursor.continue();
      };
      return request;
    });
    return records;
  }

  async put(kind: RecordKind, id: string, value: unknown): Promise<void> {
    await this.#run('readwrite', (store) => store.put(value, this.#key(kind, id)));
  }

  async delete(kind: RecordKind, id: string): Promise<void> {
    await this.#run('readwrite', (store) => store.delete(this.#key(kind, id)));
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
      return request;
    });
    return changed;
  }

  #key(kind: RecordKind, id: string): string[] {
    return [this.#namespace, kind, id];
  }

  async #run(mode: IDBTransactionMode, operate: (store: IDBObjectStore) => IDBRequest): Promise<void> {
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

function openConnection(): Promise<IDBDatabase> {
  return withTimeout((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => {
      const connection = request.result;
      connection.onversionchange = () => connection.close();
      resolve(connection);
    };
    request.onerror = () => reject(request.error);
  });
}

/** Runs an operation in its own transaction, and waits until the transaction is committed. */
function runTransaction(connection: IDBDatabase, mode: IDBTransactionMode, operate: (store: IDBObjectStore) => IDBRequest): Promise<void> {
  return withTimeout((resolve, reject) => {
    const transaction = connection.transaction(STORE, mode);
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error);
    operate(transaction.objectStore(STORE));
  });
}

function withTimeout<T>(start: (resolve: (value: T) => void, reject: (error: unknown) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new DOMException('The browser’s database does not answer.', 'TimeoutError')),
      OPERATION_TIMEOUT_MS,
    );
    const settle =
      <V>(callback: (value: V) => void) =>
      (value: V) => {
        clearTimeout(timer);
        callback(value);
      };
    try {
      start(settle(resolve), settle(reject));
    } catch (error) {
      settle(reject)(error);
    }
  });
}
