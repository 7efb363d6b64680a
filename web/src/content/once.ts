/** Returns a function that creates a value at the first call, and then returns the same value. */
export function once<T>(create: () => T): () => T {
  let created: { value: T } | null = null;
  return () => (created ??= { value: create() }).value;
}
