/** Returns the value at a path, such as `content.text`. */
const read = (object, path) => path.split('.').reduce((value, name) => value[name], object);

/**
 * Returns a field of each object, or an array of several fields.
 * @param {Iterable<any>} objects
 * @param {...string} paths
 */
export const pluck = (objects, ...paths) =>
  Array.from(objects, (object) => (paths.length === 1 ? read(object, paths[0]) : paths.map((path) => read(object, path))));
