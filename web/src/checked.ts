/** Values that CLIs write: of each field that is read, what it is comes from elsewhere, and may be anything. */

/** Whether a value is what belongs in a place. */
export type Is = (value: unknown) => boolean;

export const isText = (value: unknown): value is string => typeof value === 'string';
export const isNumber = (value: unknown): value is number => typeof value === 'number';
export const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);

/** An object without those of the named fields that hold something else than they should. */
export function checked(written: object, fields: Readonly<Record<string, Is>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(written).filter(([name, value]) => !Object.hasOwn(fields, name) || fields[name]?.(value)));
}

/**
 * The objects of a list, each {@link checked}; what lacks one of the fields that it needs is left out.
 * @param written none for what is no list
 */
export function listOf<T>(written: unknown, fields: Readonly<Record<string, Is>>, needed: (keyof T & string)[]): T[] {
  const all = Array.isArray(written) ? written.filter(isObject).map((one) => checked(one, fields)) : [];
  return all.filter((one) => needed.every((name) => one[name] !== undefined)) as T[];
}
