/** Storage of this page in memory, for a browser that blocks `localStorage` or `sessionStorage`: every access would throw. */

for (const name of ['localStorage', 'sessionStorage'] as const)
  try {
    void window[name].length;
  } catch {
    Object.defineProperty(window, name, { value: createStorage() });
  }

function createStorage(): Storage {
  const values = new Map<string, string>();
  return {
    get length() {
      return values.size;
    },
    key: (index) => [...values.keys()][index] ?? null,
    getItem: (key) => values.get(key) ?? null,
    setItem: (key, value) => void values.set(key, value),
    removeItem: (key) => void values.delete(key),
    clear: () => values.clear(),
  };
}
