/** Validates JSON that CLIs write. The hub stores and forwards the JSON unchanged, so any field may hold any type. */

/** Returns whether a field's value has the expected type. */
export type Validator = (value: unknown) => boolean;

export const isString = (value: unknown): value is string => typeof value === 'string';
export const isNumber = (value: unknown): value is number => typeof value === 'number';
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns a copy of `object` without the fields that fail their validator. Fields without a validator are copied. */
export function dropInvalidFields(object: object, validators: Readonly<Record<string, Validator>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(object).filter(([name, value]) => !Object.hasOwn(validators, name) || validators[name]?.(value)),
  );
}

/**
 * Returns the objects of a list, each without its invalid fields. Drops the objects whose required fields are missing or invalid.
 * Returns an empty list if `value` is not a list.
 */
export function parseObjects<T>(value: unknown, validators: Readonly<Record<string, Validator>>, required: (keyof T & string)[]): T[] {
  const objects = Array.isArray(value) ? value.filter(isObject).map((object) => dropInvalidFields(object, validators)) : [];
  return objects.filter((object) => required.every((name) => object[name] !== undefined)) as T[];
}
