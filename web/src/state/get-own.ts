/** Safe lookup in a record whose keys come from CLIs or URLs. */

/** Returns the value of an own property. An inherited name such as `constructor` gives undefined. */
export function getOwn<T>(record: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}
