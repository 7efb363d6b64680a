/** Returns a field of each object, or an array of several fields. */
export const pluck = <T extends object>(objects: readonly T[], ...names: (keyof T)[]) =>
  objects.map((object) => (names.length === 1 ? object[names[0] as keyof T] : names.map((name) => object[name])));
