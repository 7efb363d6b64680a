// The quarantine: tests whose failures are reported, but do not fail `npm test`. An entry is for a test that fails by chance, until its
// cause is found.

const MAX_AGE_MS = 14 * 86_400_000;

/** `test`: its file, ` › ` and its title. `date`: of the entry, as YYYY-MM-DD. @typedef {{test: string, reason: string, date: string}} Entry */

/** @type {Entry[]} */
export const QUARANTINE = [];

/** Returns a line for each entry of more than 14 days ago, which fails `npm run test:long`. */
export const expiredEntries = (entries = QUARANTINE, now = Date.now()) =>
  entries
    .filter(({ date }) => !(now - Date.parse(date) <= MAX_AGE_MS))
    .map(({ test, reason, date }) => `${test}: in quarantine since ${date}: ${reason}`);
