/**
 * Returns a JSON value of the browser's storage. Null if there is none, or the text is damaged.
 * @param restore as in `JSON.parse`
 */
export function readJson<T>(storage: Storage, key: string, restore?: (key: string, value: unknown) => unknown): T | null {
  try {
    return JSON.parse(storage.getItem(key) ?? 'null', restore) as T | null;
  } catch {
    return null;
  }
}
