/** Safe lookup in a record whose keys come from CLIs or URLs. */

/** Returns the value of an own property. Returns undefined for an inherited name such as `constructor`. */
export function getOwn<T>(record: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}
