/**
 * Returns a field of each object, or an array of several fields.
 * @param {Iterable<any>} objects
 * @param {...string} names
 */
export const pluck = (objects, ...names) =>
  Array.from(objects, (object) => (names.length === 1 ? object[names[0]] : names.map((name) => object[name])));
