/** @param {string} text @returns {any} null if the text is not JSON */
export function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
