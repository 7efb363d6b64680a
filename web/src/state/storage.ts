/** Writes to the browser's storage. */

/**
 * Stores a text, or logs a warning if the quota (about 5 MB) is exceeded. Then the old value stays, and the new one survives
 * only in the caller's memory.
 */
export function saveItem(storage: Pick<Storage, 'setItem'>, key: string, text: string): void {
  try {
    storage.setItem(key, text);
  } catch (error) {
    console.warn(`“${key}” cannot be stored and will be lost on reload.`, error);
  }
}
