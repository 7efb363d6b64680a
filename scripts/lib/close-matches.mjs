// "Did you mean": the candidates that are similar to a mistyped name.

/** Two names are similar if at least this share of their bigrams is common (Sørensen–Dice coefficient). */
const MIN_SIMILARITY = 0.45;

/**
 * @param {string} name
 * @param {string[]} candidates paths or names; only the last component of a path is compared
 * @param {number} [limit]
 * @returns {string[]} the similar candidates, most similar first
 */
export function closeMatches(name, candidates, limit = 3) {
  const wanted = bigramsOf(stemOf(name));
  const scored = candidates.map((candidate) => ({ candidate, score: similarity(wanted, bigramsOf(stemOf(candidate))) }));
  return scored
    .filter(({ candidate, score }) => score >= MIN_SIMILARITY || (stemOf(name).length > 2 && stemOf(candidate).includes(stemOf(name))))
    .sort((a, b) => b.score - a.score)
    .slice(0, limit)
    .map(({ candidate }) => candidate);
}

/** The last component of a path, without extensions, in lower case. @param {string} file */
const stemOf = (file) => file.split('/').at(-1).split('.')[0].toLowerCase();

/** @param {string} text */
const bigramsOf = (text) => Array.from({ length: Math.max(0, text.length - 1) }, (_, i) => text.slice(i, i + 2));

/**
 * @param {string[]} a
 * @param {string[]} b
 */
function similarity(a, b) {
  const unmatched = [...b];
  let common = 0;
  for (const pair of a) {
    const at = unmatched.indexOf(pair);
    if (at === -1) continue;
    unmatched.splice(at, 1);
    common += 1;
  }
  return (2 * common) / (a.length + b.length || 1);
}
