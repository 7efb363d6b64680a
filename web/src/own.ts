/** Tables by names that somebody else chose. */

/** An entry of a table. What every object inherits, such as `constructor`, is none. */
export function own<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
