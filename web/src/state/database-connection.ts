/** The connection to the browser's database. */

import { pathPrefix } from '../content/hub-address.ts';

export const STORE = 'records';

/** Needed because some browsers never complete an operation, for example after the page was in the background. */
const OPERATION_TIMEOUT_MS = 3000;

/** Opened at once: browsers take long to open the database, and the first screen needs its data. */
export const firstConnection = openConnection();
// `openDatabase` handles the failure.
firstConnection.catch(() => {});

/** Opens the database. Rejects if the browser refuses it, as in some private windows, or does not answer. */
export function openConnection(): Promise<IDBDatabase> {
  return withTimeout((resolve, reject) => {
    const request = indexedDB.open(`console${pathPrefix()}`, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => {
      const connection = request.result;
      connection.onversionchange = () => connection.close();
      resolve(connection);
    };
    request.onerror = () => reject(request.error);
  });
}

/** Runs an operation of the database. Rejects if the operation takes longer than `OPERATION_TIMEOUT_MS`. */
export function withTimeout<T>(start: (resolve: (value: T) => void, reject: (error: unknown) => void) => void): Promise<T> {
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
