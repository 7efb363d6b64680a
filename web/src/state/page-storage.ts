/**
 * Replaces `localStorage` and `sessionStorage` if the page cannot use them as they are:
 * - The browser blocks them: every access would throw. The values are kept in memory.
 * - A proxy serves the hub under a prefix. Another hub of the same origin must not read this hub's tokens, so each key gets the prefix.
 */

import { pathPrefix } from '../content/hub-address.ts';

for (const name of ['localStorage', 'sessionStorage'] as const) {
  let values: Values = new Map<string, string>();
  try {
    void window[name].length;
    if (pathPrefix() === '') continue;
    values = withPrefix(window[name], `${pathPrefix()} `);
  } catch {}
  Object.defineProperty(window, name, { value: createStorage(values) });
}

interface Values {
  keys(): Iterable<string>;
  get(key: string): string | null | undefined;
  set(key: string, value: string): unknown;
  delete(key: string): unknown;
}

/** Returns the values of a storage whose keys have a prefix. */
export function withPrefix(storage: Storage, prefix: string): Values {
  const all = () => Array.from({ length: storage.length }, (_, index) => storage.key(index) ?? '');
  return {
    keys: () => all().flatMap((key) => (key.startsWith(prefix) ? key.slice(prefix.length) : [])),
    get: (key) => storage.getItem(prefix + key),
    set: (key, value) => storage.setItem(prefix + key, value),
    delete: (key) => storage.removeItem(prefix + key),
  };
}

export function createStorage(values: Values): Storage {
  return {
    get length() {
      return [...values.keys()].length;
    },
    key: (index) => [...values.keys()][index] ?? null,
    getItem: (key) => values.get(key) ?? null,
    setItem: (key, value) => void values.set(key, value),
    removeItem: (key) => void values.delete(key),
    clear: () => {
      for (const key of [...values.keys()]) values.delete(key);
    },
  };
}
